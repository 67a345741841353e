import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.List;
import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttClient;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/** Eclipse Paho's client of MQTT 5. */
final class PahoFive extends Device {
  private final MqttClient client;

  PahoFive(Relay relay, Options o) throws Exception {
    this.relay = relay;
    client = new MqttClient("tcp://127.0.0.1:" + relay.port(), o.id(), new MemoryPersistence());
    client.setTimeToWait(WAIT_SECONDS * 1000L);
    client.setCallback(new MqttCallback() {
      @Override
      public void messageArrived(String topic, MqttMessage m) {
        came(new Message(topic, new String(m.getPayload(), UTF_8), m.getQos(), m.isRetained(), m.isDuplicate(), from(m.getProperties())));
      }

      @Override
      public void disconnected(MqttDisconnectResponse r) {}

      @Override
      public void mqttErrorOccurred(MqttException e) {}

      @Override
      public void deliveryComplete(IMqttToken token) {}

      @Override
      public void connectComplete(boolean reconnect, String uri) {}

      @Override
      public void authPacketArrived(int reason, MqttProperties p) {}
    });
    MqttConnectionOptions connect = new MqttConnectionOptions();
    connect.setCleanStart(!o.keep());
    if (o.keep()) {
      connect.setSessionExpiryInterval(3600L);
    }
    if (o.will() != null) {
      connect.setWill(o.will().topic(), new MqttMessage(o.will().payload().getBytes(UTF_8), o.will().qos(), o.will().retained(), null));
    }
    resumed = client.connectWithResult(connect).getSessionPresent();
  }

  @Override
  void subscribe(String filter, int qos) throws Exception {
    int reason = client.subscribe(filter, qos).getReasonCodes()[0];
    if (reason != qos) {
      throw new AssertionError("subscribe to " + filter + ": reason " + reason);
    }
  }

  @Override
  void publish(Message m) throws Exception {
    MqttMessage out = new MqttMessage(m.payload().getBytes(UTF_8), m.qos(), m.retained(), to(m.properties()));
    client.publish(m.topic(), out);
  }

  @Override
  void disconnect() throws Exception {
    client.disconnect();
    client.close();
  }

  private static MqttProperties to(Properties p) {
    MqttProperties out = new MqttProperties();
    if (p == null) {
      return out;
    }
    out.setContentType(p.contentType());
    out.setResponseTopic(p.responseTopic());
    out.setCorrelationData(p.correlation().getBytes(UTF_8));
    out.setMessageExpiryInterval(p.expiry());
    List<UserProperty> user = new ArrayList<>();
    for (String u : p.user()) {
      user.add(new UserProperty(u.substring(0, u.indexOf('=')), u.substring(u.indexOf('=') + 1)));
    }
    out.setUserProperties(user);
    return out;
  }

  private static Properties from(MqttProperties p) {
    if (p == null || p.getContentType() == null) {
      return null;
    }
    List<String> user = p.getUserProperties().stream().map(u -> u.getKey() + "=" + u.getValue()).toList();
    return new Properties(p.getContentType(), p.getResponseTopic(), new String(p.getCorrelationData(), UTF_8), p.getMessageExpiryInterval(), user);
  }
}
