import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.http.client.Client;
import com.rabbitmq.http.client.GetAckMode;
import com.rabbitmq.http.client.domain.*;
import java.net.URL;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** RabbitMQ's HTTP client for Java: every answer is decoded into its types. Arguments: API's URL, AMQP port. */
public class Hop {
  static void check(boolean ok, String what) {
    if (!ok) throw new AssertionError(what);
  }

  /** RabbitMQ's own statistics come late, so what is listed is waited for. */
  static void until(BooleanSupplier ok, String what) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!ok.getAsBoolean()) {
      check(System.nanoTime() < end, what);
      Thread.sleep(50);
    }
  }

  public static void main(String[] args) throws Exception {
    Client c = new Client(new URL(args[0]), "guest", "guest");
    check(c.whoAmI().getName().equals("guest"), "whoami");
    check(c.alivenessTest("/"), "aliveness");
    check(c.getOverview().getObjectTotals().getExchanges() >= 6, "overview");
    check(c.getNodes().get(0).isRunning(), "nodes");
    check(c.getNode(c.getNodes().get(0).getName()) != null, "node");

    c.createVhost("hop", "of the test", "a", "b");
    check(c.getVhost("hop").getDescription().equals("of the test"), "description of a virtual host");
    check(c.getVhosts().size() >= 2, "virtual hosts");
    c.updatePermissions("hop", "guest", new UserPermissions(".*", ".*", ".*"));
    check(c.getPermissionsIn("hop").get(0).getUser().equals("guest"), "permissions");
    check(c.getUser("guest").getName().equals("guest"), "user");

    c.declareExchange("hop", "x", new ExchangeInfo("topic", true, false));
    c.declareExchange("hop", "y", new ExchangeInfo("fanout", false, true, true, new HashMap<>()));
    Map<String, Object> limits = new HashMap<>();
    limits.put("x-max-length", 100);
    c.declareQueue("hop", "q", new QueueInfo(true, false, false, limits));
    QueueInfo q = c.getQueue("hop", "q");
    check(q.isDurable() && ((Number) q.getArguments().get("x-max-length")).intValue() == 100, "queue");
    c.bindQueue("hop", "q", "x", "a.*", Map.of("k", "v"));
    c.bindExchange("hop", "y", "x", "b/c d");
    check(c.getQueueBindings("hop", "q").size() == 2, "bindings of a queue");
    check(c.getQueueBindingsBetween("hop", "x", "q").get(0).getRoutingKey().equals("a.*"), "bindings between");
    check(c.getBindingsBySource("hop", "x").size() == 2, "bindings of a source");
    c.unbindExchange("hop", "y", "x", "b/c d");
    check(c.getExchangeBindingsByDestination("hop", "y").isEmpty(), "a binding was removed");
    check(c.getExchange("hop", "x").getType().equals("topic"), "exchange");

    check(c.publish("hop", "x", "a.b", new OutboundMessage().payload("hello")), "a message that is routed");
    check(!c.publish("hop", "x", "z", new OutboundMessage().payload("hello")), "a message that is not");
    List<InboundMessage> got = c.get("hop", "q", 5, GetAckMode.NACK_REQUEUE_TRUE, com.rabbitmq.http.client.GetEncoding.AUTO, 50000);
    check(got.size() == 1 && got.get(0).getPayload().equals("hello") && got.get(0).getRoutingKey().equals("a.b"), "get");
    c.purgeQueue("hop", "q");
    check(c.get("hop", "q") == null, "get from a queue that was purged");

    c.declarePolicy("hop", "p", new PolicyInfo("^q", 3, "queues", Map.of("max-length", 50)));
    c.declareOperatorPolicy("hop", "o", new PolicyInfo("^q", 0, "queues", Map.of("max-length", 40)));
    check(c.getPolicies("hop").get(0).getPriority() == 3, "policy");
    check(c.getOperatorPolicies("hop").size() == 1, "operator policy");
    c.deletePolicy("hop", "p");
    c.deleteOperatorPolicy("hop", "o");
    check(c.getDefinitions().getQueues().stream().anyMatch(d -> d.getName().equals("q")), "definitions");

    ConnectionFactory f = new ConnectionFactory();
    f.setPort(Integer.parseInt(args[1]));
    f.setVirtualHost("hop");
    f.setAutomaticRecoveryEnabled(false);
    Connection amqp = f.newConnection("hop's connection");
    Channel ch = amqp.createChannel();
    ch.basicQos(7);
    DeliverCallback nothing = (tag, delivery) -> { };
    ch.basicConsume("q", false, "tag", nothing, tag -> { });
    until(() -> c.getConnections().stream().anyMatch(i -> "hop's connection".equals(i.getClientProperties().getConnectionName())), "connections");
    ConnectionInfo info = c.getConnections().stream().filter(i -> "hop's connection".equals(i.getClientProperties().getConnectionName())).findFirst().get();
    check(info.getVhost().equals("hop") && info.getUser().equals("guest"), "connection");
    check(c.getConnection(info.getName()).getName().equals(info.getName()), "one connection");
    until(() -> !c.getChannels(info.getName()).isEmpty() && c.getChannels(info.getName()).get(0).getConsumerCount() == 1, "channels");
    until(() -> c.getConsumers("hop").size() == 1 && c.getConsumers("hop").get(0).getConsumerTag().equals("tag"), "consumers");
    until(() -> c.getQueue("hop", "q").getConsumerCount() == 1, "consumers of a queue");
    CountDownLatch closed = new CountDownLatch(1);
    String[] why = new String[1];
    amqp.addShutdownListener(e -> {
      why[0] = ((AMQP.Connection.Close) e.getReason()).getReplyText();
      closed.countDown();
    });
    c.closeConnection(info.getName(), "of the test");
    check(closed.await(20, TimeUnit.SECONDS) && why[0].contains("of the test"), "a closed connection: " + why[0]);

    Page<QueueInfo> page = c.getQueues("hop", new QueryParameters().pagination().pageSize(1).query());
    check(page.getTotalCount() == 1 && page.getItemsAsList().get(0).getName().equals("q"), "a page");
    c.deleteQueue("hop", "q");
    c.deleteExchange("hop", "x");
    check(c.getQueue("hop", "q") == null, "a queue that was deleted");
    c.deleteVhost("hop");
    check(c.getVhost("hop") == null, "a virtual host that was deleted");
    System.exit(0); // threads of the HTTP client stay
  }
}
