import static java.nio.charset.StandardCharsets.UTF_8;

import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.MqttCallback;
import org.eclipse.paho.client.mqttv3.MqttClient;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** Eclipse Paho's client of MQTT 3.1.1. */
final class PahoThree extends Device {
  private final MqttClient client;

  PahoThree(Relay relay, Options o) throws Exception {
    this.relay = relay;
    client = new MqttClient("tcp://127.0.0.1:" + relay.port(), o.id(), new MemoryPersistence());
    client.setTimeToWait(WAIT_SECONDS * 1000L);
    client.setCallback(new MqttCallback() {
      @Override
      public void messageArrived(String topic, MqttMessage m) {
        came(new Message(topic, new String(m.getPayload(), UTF_8), m.getQos(), m.isRetained(), m.isDuplicate(), null));
      }

      @Override
      public void connectionLost(Throwable cause) {}

      @Override
      public void deliveryComplete(IMqttDeliveryToken token) {}
    });
    MqttConnectOptions connect = new MqttConnectOptions();
    connect.setMqttVersion(MqttConnectOptions.MQTT_VERSION_3_1_1);
    connect.setCleanSession(!o.keep());
    if (o.will() != null) {
      connect.setWill(o.will().topic(), o.will().payload().getBytes(UTF_8), o.will().qos(), o.will().retained());
    }
    resumed = client.connectWithResult(connect).getSessionPresent();
  }

  @Override
  void subscribe(String filter, int qos) throws Exception {
    int[] granted = client.subscribeWithResponse(filter, qos).getGrantedQos();
    if (granted[0] != qos) {
      throw new AssertionError("subscribe to " + filter + ": granted " + granted[0]);
    }
  }

  @Override
  void publish(Message m) throws Exception {
    client.publish(m.topic(), m.payload().getBytes(UTF_8), m.qos(), m.retained());
  }

  @Override
  void disconnect() throws Exception {
    client.disconnect();
    client.close();
  }
}
