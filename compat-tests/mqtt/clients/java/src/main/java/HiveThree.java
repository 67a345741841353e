import static java.nio.charset.StandardCharsets.UTF_8;

import com.hivemq.client.mqtt.MqttClient;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt3.message.connect.Mqtt3Connect;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import java.util.concurrent.TimeUnit;

/** HiveMQ's client, as one of MQTT 3.1.1. */
final class HiveThree extends Device {
  private final Mqtt3AsyncClient client;

  HiveThree(Relay relay, Options o) throws Exception {
    this.relay = relay;
    client = MqttClient.builder().useMqttVersion3().identifier(o.id()).serverHost("127.0.0.1").serverPort(relay.port()).buildAsync();
    // It does not hand out DUP. Nobody who uses it could know that a message comes again.
    client.publishes(MqttGlobalPublishFilter.ALL, m ->
        came(new Message(m.getTopic().toString(), new String(m.getPayloadAsBytes(), UTF_8), m.getQos().getCode(), m.isRetain(), true, null)));
    var connect = Mqtt3Connect.builder().cleanSession(!o.keep());
    if (o.will() != null) {
      connect = connect.willPublish(to(o.will()));
    }
    resumed = client.connect(connect.build()).get(WAIT_SECONDS, TimeUnit.SECONDS).isSessionPresent();
  }

  @Override
  void subscribe(String filter, int qos) throws Exception {
    var ack = client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send().get(WAIT_SECONDS, TimeUnit.SECONDS);
    if (ack.getReturnCodes().get(0).getCode() != qos) {
      throw new AssertionError("subscribe to " + filter + ": " + ack.getReturnCodes());
    }
  }

  @Override
  void publish(Message m) throws Exception {
    client.publish(to(m)).get(WAIT_SECONDS, TimeUnit.SECONDS);
  }

  @Override
  void disconnect() throws Exception {
    client.disconnect().get(WAIT_SECONDS, TimeUnit.SECONDS);
  }

  private static Mqtt3Publish to(Message m) {
    return Mqtt3Publish.builder().topic(m.topic()).qos(MqttQos.fromCode(m.qos())).retain(m.retained()).payload(m.payload().getBytes(UTF_8)).build();
  }
}
