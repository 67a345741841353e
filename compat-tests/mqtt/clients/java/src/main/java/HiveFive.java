import static java.nio.charset.StandardCharsets.UTF_8;

import com.hivemq.client.mqtt.MqttClient;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperties;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5Connect;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** HiveMQ's client, as one of MQTT 5. */
final class HiveFive extends Device {
  private final Mqtt5AsyncClient client;

  HiveFive(Relay relay, Options o) throws Exception {
    this.relay = relay;
    client = MqttClient.builder().useMqttVersion5().identifier(o.id()).serverHost("127.0.0.1").serverPort(relay.port()).buildAsync();
    // It does not hand out DUP. Nobody who uses it could know that a message comes again.
    client.publishes(MqttGlobalPublishFilter.ALL, m ->
        came(new Message(m.getTopic().toString(), new String(m.getPayloadAsBytes(), UTF_8), m.getQos().getCode(), m.isRetain(), true, from(m))));
    var connect = Mqtt5Connect.builder().cleanStart(!o.keep());
    if (o.keep()) {
      connect = connect.sessionExpiryInterval(3600);
    }
    if (o.will() != null) {
      connect = connect.willPublish(to(o.will()));
    }
    resumed = client.connect(connect.build()).get(WAIT_SECONDS, TimeUnit.SECONDS).isSessionPresent();
  }

  @Override
  void subscribe(String filter, int qos) throws Exception {
    var ack = client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send().get(WAIT_SECONDS, TimeUnit.SECONDS);
    if (ack.getReasonCodes().get(0).getCode() != qos) {
      throw new AssertionError("subscribe to " + filter + ": " + ack.getReasonCodes());
    }
  }

  @Override
  void publish(Message m) throws Exception {
    var result = client.publish(to(m)).get(WAIT_SECONDS, TimeUnit.SECONDS);
    if (result.getError().isPresent()) {
      throw new AssertionError("publish to " + m.topic(), result.getError().get());
    }
  }

  @Override
  void disconnect() throws Exception {
    client.disconnect().get(WAIT_SECONDS, TimeUnit.SECONDS);
  }

  private static Mqtt5Publish to(Message m) {
    var out = Mqtt5Publish.builder().topic(m.topic()).qos(MqttQos.fromCode(m.qos())).retain(m.retained()).payload(m.payload().getBytes(UTF_8));
    Properties p = m.properties();
    if (p != null) {
      var user = Mqtt5UserProperties.builder();
      for (String u : p.user()) {
        user = user.add(u.substring(0, u.indexOf('=')), u.substring(u.indexOf('=') + 1));
      }
      out = out.contentType(p.contentType()).responseTopic(p.responseTopic()).correlationData(p.correlation().getBytes(UTF_8))
          .messageExpiryInterval(p.expiry()).userProperties(user.build());
    }
    return out.build();
  }

  private static Properties from(Mqtt5Publish m) {
    if (m.getContentType().isEmpty()) {
      return null;
    }
    byte[] correlation = new byte[m.getCorrelationData().get().remaining()];
    m.getCorrelationData().get().get(correlation);
    List<String> user = m.getUserProperties().asList().stream().map(u -> u.getName() + "=" + u.getValue()).toList();
    return new Properties(m.getContentType().get().toString(), m.getResponseTopic().get().toString(), new String(correlation, UTF_8),
        m.getMessageExpiryInterval().orElse(0), user);
  }
}
