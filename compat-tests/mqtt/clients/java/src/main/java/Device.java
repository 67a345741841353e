import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A connection of one client library. Whatever it does waits for the broker's answer. */
abstract class Device {
  static final int WAIT_SECONDS = 20;

  /** @param keep the session outlives the connection, and is gone on with */
  record Options(String id, boolean keep, Message will) {}

  /** @param again the DUP flag */
  record Message(String topic, String payload, int qos, boolean retained, boolean again, Properties properties) {
    static Message of(String topic, String payload, int qos) {
      return new Message(topic, payload, qos, false, false, null);
    }

    Message retain() {
      return new Message(topic, payload, qos, true, again, properties);
    }

    Message with(Properties p) {
      return new Message(topic, payload, qos, retained, again, p);
    }
  }

  /** What MQTT 5 has beside the payload. User properties are "name=value". */
  record Properties(String contentType, String responseTopic, String correlation, long expiry, List<String> user) {}

  interface Opener {
    Device open(Options o) throws Exception;
  }

  private final BlockingQueue<Message> messages = new LinkedBlockingQueue<>();

  /** Whether the broker had a session. */
  boolean resumed;

  Relay relay;

  abstract void subscribe(String filter, int qos) throws Exception;

  abstract void publish(Message m) throws Exception;

  abstract void disconnect() throws Exception;

  /** Ends the connection without a goodbye. */
  void cut() throws Exception {
    relay.close();
  }

  /** What libraries call with each message. */
  void came(Message m) {
    messages.add(m);
  }

  Message receive() throws Exception {
    Message m = messages.poll(WAIT_SECONDS, TimeUnit.SECONDS);
    if (m == null) {
      throw new AssertionError("nothing came");
    }
    return m;
  }

  /** The next message, or null where none has come yet. */
  Message poll() throws InterruptedException {
    return messages.poll(10, TimeUnit.MILLISECONDS);
  }

  Message expect(Message want) throws Exception {
    Message m = receive();
    if (!m.topic.equals(want.topic) || !m.payload.equals(want.payload) || m.qos != want.qos || m.retained != want.retained) {
      throw new AssertionError("got " + brief(m) + ", want " + brief(want));
    }
    return m;
  }

  private static String brief(Message m) {
    String payload = m.payload.length() > 40 ? m.payload.substring(0, 40) + "…" : m.payload;
    return "\"" + payload + "\" to " + m.topic + " (QoS " + m.qos + (m.retained ? ", retained)" : ")");
  }
}
