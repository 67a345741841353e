import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.LogManager;

/**
 * Runs the scenarios with a client library against a broker: Main HOST:PORT paho|hivemq 4|5. Ends with
 * 0 when all is as it should be.
 */
public final class Main {
  private final String root;
  private final Device.Opener opener;

  private Main(String root, Device.Opener opener) {
    this.root = root;
    this.opener = opener;
  }

  private interface Scenario {
    void run() throws Exception;
  }

  private static boolean failed;

  public static void main(String[] args) {
    LogManager.getLogManager().reset();
    String host = args[0].substring(0, args[0].lastIndexOf(':'));
    int port = Integer.parseInt(args[0].substring(args[0].lastIndexOf(':') + 1));
    String library = args[1] + args[2];
    Main t = new Main("java-" + library, o -> {
      Relay relay = new Relay(host, port);
      return switch (library) {
        case "paho4" -> new PahoThree(relay, o);
        case "paho5" -> new PahoFive(relay, o);
        case "hivemq4" -> new HiveThree(relay, o);
        case "hivemq5" -> new HiveFive(relay, o);
        default -> throw new IllegalArgumentException(library);
      };
    });
    check("QoS", t::qos);
    check("retained", t::retained);
    check("will", t::will);
    check("session", t::session);
    check("shared", t::shared);
    check("limits", t::limits);
    if (args[2].equals("5")) {
      check("properties", t::properties);
    }
    System.exit(failed ? 1 : 0);
  }

  private static void check(String name, Scenario s) {
    try {
      s.run();
    } catch (Throwable e) {
      System.out.print(name + ": ");
      e.printStackTrace(System.out);
      failed = true;
    }
  }

  private Device open(String id) throws Exception {
    return opener.open(new Device.Options(root + id, false, null));
  }

  /** Opens a device that the broker has a session of, or none. */
  private Device resume(String id, boolean present) throws Exception {
    Device d = opener.open(new Device.Options(root + id, true, null));
    if (d.resumed != present) {
      throw new AssertionError("session present: got " + d.resumed + ", want " + present);
    }
    return d;
  }

  private void qos() throws Exception {
    Device sub = open("qos-sub");
    Device pub = open("qos-pub");
    for (int qos = 0; qos <= 2; qos++) {
      String topic = root + "/" + qos + "/ü";
      sub.subscribe(root + "/" + qos + "/#", qos);
      for (int i = 0; i < 60; i++) {
        pub.publish(Device.Message.of(topic, "m" + i, qos));
      }
      String big = "x".repeat(300_000);
      pub.publish(Device.Message.of(topic, big, qos));
      for (int i = 0; i < 60; i++) {
        sub.expect(Device.Message.of(topic, "m" + i, qos));
      }
      sub.expect(Device.Message.of(topic, big, qos));
      // The publish's QoS wins where it is lower than the subscription's.
      pub.publish(Device.Message.of(topic, "lower", 0));
      sub.expect(Device.Message.of(topic, "lower", 0));
    }
    sub.disconnect();
    pub.disconnect();
  }

  private void retained() throws Exception {
    Device sub = open("kept-sub");
    Device pub = open("kept-pub");
    String topic = root + "/kept/a";
    pub.publish(Device.Message.of(topic, "old", 1).retain());
    pub.publish(Device.Message.of(topic, "new", 1).retain());
    sub.subscribe(root + "/kept/+", 1);
    sub.expect(Device.Message.of(topic, "new", 1).retain());
    pub.publish(Device.Message.of(topic, "", 1).retain());
    sub.expect(Device.Message.of(topic, "", 1));
    // Who comes now gets nothing but what is published now.
    pub.subscribe(root + "/kept/+", 1);
    sub.publish(Device.Message.of(topic, "live", 1));
    pub.expect(Device.Message.of(topic, "live", 1));
    sub.disconnect();
    pub.disconnect();
  }

  private void will() throws Exception {
    Device sub = open("will-sub");
    sub.subscribe(root + "/will/+", 1);
    Device polite = opener.open(new Device.Options(root + "polite", false, Device.Message.of(root + "/will/polite", "no", 1)));
    Device lost = opener.open(new Device.Options(root + "lost", false, Device.Message.of(root + "/will/lost", "gone", 1)));
    polite.disconnect();
    lost.cut();
    sub.expect(Device.Message.of(root + "/will/lost", "gone", 1));
    sub.disconnect();
  }

  private void session() throws Exception {
    Device pub = open("session-pub");
    open("session").disconnect(); // what an earlier run has left ends here
    Device sub = resume("session", false);
    sub.subscribe(root + "/session/1", 1);
    sub.subscribe(root + "/session/2", 2);
    sub.disconnect();
    publishBoth(pub, "away");
    sub = resume("session", true);
    expectBoth(sub, "away");
    // Another connection takes the session over, with what it has subscribed to.
    sub = resume("session", true);
    publishBoth(pub, "there");
    expectBoth(sub, "there");
    sub.disconnect();
    pub.disconnect();
  }

  private void publishBoth(Device pub, String payload) throws Exception {
    for (int i = 0; i < 50; i++) {
      for (int qos = 1; qos <= 2; qos++) {
        pub.publish(Device.Message.of(root + "/session/" + qos, payload + i, qos));
      }
    }
  }

  /**
   * Takes those messages. Those of one topic come in order. Libraries acknowledge beside what they hand out, so
   * that what came over the connection before may come again.
   */
  private void expectBoth(Device sub, String payload) throws Exception {
    int[] got = new int[3];
    while (got[1] + got[2] < 100) {
      Device.Message m = sub.receive();
      if (m.again() && !m.payload().startsWith(payload)) {
        continue;
      }
      if (!m.payload().equals(payload + got[m.qos()])) {
        throw new AssertionError("of QoS " + m.qos() + " got " + m.payload() + ", want " + payload + got[m.qos()]);
      }
      got[m.qos()]++;
    }
  }

  private void shared() throws Exception {
    Device pub = open("shared-pub");
    Device[] members = {open("shared-a"), open("shared-b")};
    for (Device d : members) {
      d.subscribe("$share/workers/" + root + "/shared/#", 1);
    }
    for (int i = 0; i < 100; i++) {
      pub.publish(Device.Message.of(root + "/shared/x", "m" + i, 1));
    }
    Map<String, Integer> seen = new HashMap<>();
    int[] got = new int[members.length];
    long end = System.nanoTime() + Device.WAIT_SECONDS * 1_000_000_000L;
    while (seen.size() < 100) {
      for (int i = 0; i < members.length; i++) {
        Device.Message m = members[i].poll();
        if (m != null && seen.merge(m.payload(), 1, Integer::sum) > 1) {
          throw new AssertionError(m.payload() + " came twice");
        }
        got[i] += m == null ? 0 : 1;
      }
      if (System.nanoTime() > end) {
        throw new AssertionError("of 100 messages " + seen.size() + " came");
      }
    }
    if (got[0] == 0 || got[1] == 0) {
      throw new AssertionError("one member got " + got[0] + ", the other " + got[1]);
    }
    for (Device d : members) {
      d.disconnect();
    }
    pub.disconnect();
  }

  /** What the test verb of HiveMQ's command line asks: long ids and names, odd characters, wildcards, large payloads. */
  private void limits() throws Exception {
    for (String id : List.of("a".repeat(900), " !\"$%&'()*,-./:;<=>?@[\\]^_`{|}~", "ünïcödé")) {
      open(id).disconnect();
    }
    Device d = open("limits");
    String deep = root + "/limits" + "/l".repeat(100);
    String wide = root + "/limits/" + "w".repeat(30_000);
    d.subscribe(root + "/limits/+/#", 2);
    d.subscribe("+/limits/" + "w".repeat(30_000) + "/x", 1);
    for (String topic : List.of(deep, wide, wide + "/x")) {
      d.publish(Device.Message.of(topic, "x", 1));
      d.expect(Device.Message.of(topic, "x", 1));
    }
    String payload = "p".repeat(900_000);
    d.publish(Device.Message.of(deep, payload, 2));
    d.expect(Device.Message.of(deep, payload, 2));
    d.disconnect();
  }

  private void properties() throws Exception {
    Device sub = open("properties-sub");
    Device pub = open("properties-pub");
    String topic = root + "/properties";
    sub.subscribe(topic, 2);
    var p = new Device.Properties("text/plain", "answers", "\0c", 100, List.of("b=1", "a=2", "b=3"));
    for (int qos = 0; qos <= 2; qos++) {
      Device.Message m = Device.Message.of(topic, "x", qos).with(p);
      pub.publish(m);
      Device.Properties got = sub.expect(m).properties();
      if (got.expiry() <= 0 || got.expiry() > p.expiry()) {
        throw new AssertionError("expiry: got " + got.expiry());
      }
      var same = new Device.Properties(got.contentType(), got.responseTopic(), got.correlation(), p.expiry(), got.user());
      if (!same.equals(p)) {
        throw new AssertionError("got " + same + ", want " + p);
      }
    }
    sub.disconnect();
    pub.disconnect();
  }
}
