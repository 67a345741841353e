import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.reflect.TypeToken;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.ClientVersion;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** The driver for RabbitMQ's Java client; the conversation is described in clients/proto. */
public final class Driver {
  private static final Gson GSON = new Gson();

  /** A channel with what it was told of its publishes. */
  private static final class Open {
    final Channel channel;
    final AtomicInteger returned = new AtomicInteger();
    boolean confirming;

    Open(Channel channel) {
      this.channel = channel;
      channel.addReturnListener(r -> returned.set(r.getReplyCode()));
    }
  }

  private final String addr;
  private final Map<String, Open> channels = new ConcurrentHashMap<>();
  private Connection connection;

  private Driver(String addr) {
    this.addr = addr;
  }

  public static void main(String[] args) throws Exception {
    new Driver(args[0]).serve();
    System.exit(0);
  }

  private static synchronized void say(Map<String, Object> line) {
    System.out.println(GSON.toJson(line));
    System.out.flush();
  }

  private void serve() throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      JsonObject r = GSON.fromJson(line, JsonObject.class);
      Map<String, Object> reply = new LinkedHashMap<>();
      reply.put("id", r.get("id").getAsInt());
      try {
        reply.put("ok", run(r));
      } catch (Exception e) {
        reply.put("error", error(e));
      }
      say(reply);
    }
  }

  /** The broker's reason, which the library keeps in the cause. */
  private static Map<String, Object> error(Throwable e) {
    for (Throwable t = e; t != null; t = t.getCause()) {
      if (t instanceof ShutdownSignalException s) {
        if (s.getReason() instanceof AMQP.Channel.Close c) {
          return Map.of("code", c.getReplyCode(), "text", c.getReplyText());
        }
        if (s.getReason() instanceof AMQP.Connection.Close c) {
          return Map.of("code", c.getReplyCode(), "text", c.getReplyText());
        }
      }
    }
    return Map.of("code", 0, "text", String.valueOf(e));
  }

  private static String text(JsonObject r, String name) {
    return r.has(name) ? r.get(name).getAsString() : "";
  }

  private static boolean flag(JsonObject r, String name) {
    return r.has(name) && r.get(name).getAsBoolean();
  }

  private static long number(JsonObject r, String name) {
    return r.has(name) ? r.get(name).getAsLong() : 0;
  }

  private Map<String, Object> run(JsonObject r) throws Exception {
    String op = text(r, "op");
    String name = text(r, "ch");
    if (op.equals("hello")) {
      ConnectionFactory f = new ConnectionFactory();
      f.setUri("amqp://guest:guest@" + addr);
      f.setRequestedHeartbeat(1);
      f.setAutomaticRecoveryEnabled(false);
      connection = f.newConnection();
      return Map.of("client", "java", "version", ClientVersion.VERSION);
    }
    if (op.equals("channel")) {
      channels.put(name, new Open(connection.createChannel()));
      return Map.of();
    }
    Open o = channels.get(name);
    Channel ch = o.channel;
    Map<String, Object> args = table(r, "args");
    switch (op) {
      case "close" -> ch.close();
      case "confirm" -> {
        ch.confirmSelect();
        o.confirming = true;
      }
      case "tx" -> ch.txSelect();
      case "commit" -> ch.txCommit();
      case "rollback" -> ch.txRollback();
      case "exchange" -> ch.exchangeDeclare(text(r, "name"), text(r, "type"), flag(r, "durable"), false, flag(r, "internal"), args);
      case "queue" -> {
        AMQP.Queue.DeclareOk q = flag(r, "passive")
            ? ch.queueDeclarePassive(text(r, "name"))
            : ch.queueDeclare(text(r, "name"), flag(r, "durable"), flag(r, "exclusive"), flag(r, "auto_delete"), args);
        return Map.of("name", q.getQueue(), "messages", q.getMessageCount(), "consumers", q.getConsumerCount());
      }
      case "bind" -> ch.queueBind(text(r, "queue"), text(r, "exchange"), text(r, "key"), args);
      case "unbind" -> ch.queueUnbind(text(r, "queue"), text(r, "exchange"), text(r, "key"), args);
      case "xbind" -> ch.exchangeBind(text(r, "destination"), text(r, "source"), text(r, "key"));
      case "purge" -> {
        return Map.of("messages", ch.queuePurge(text(r, "queue")).getMessageCount());
      }
      case "delete" -> ch.queueDelete(text(r, "queue"));
      case "publish" -> {
        return publish(o, r);
      }
      case "qos" -> ch.basicQos((int) number(r, "prefetch"));
      case "consume" -> ch.basicConsume(text(r, "queue"), flag(r, "no_ack"), text(r, "tag"), false, flag(r, "exclusive"), args, new DefaultConsumer(ch) {
          @Override
          public void handleDelivery(String tag, Envelope e, AMQP.BasicProperties p, byte[] body) {
            say(Map.of("event", "deliver", "ch", name, "delivery", delivery(tag, e, p, body)));
          }

          @Override
          public void handleCancel(String tag) {
            say(Map.of("event", "cancelled", "ch", name, "tag", tag));
          }
        });
      case "get" -> {
        GetResponse g = ch.basicGet(text(r, "queue"), flag(r, "no_ack"));
        return g == null ? Map.of("empty", true) : Map.of("delivery", delivery("", g.getEnvelope(), g.getProps(), g.getBody()));
      }
      case "ack" -> ch.basicAck(number(r, "number"), flag(r, "multiple"));
      case "nack" -> ch.basicNack(number(r, "number"), flag(r, "multiple"), flag(r, "requeue"));
      case "reject" -> ch.basicReject(number(r, "number"), flag(r, "requeue"));
      case "cancel" -> ch.basicCancel(text(r, "tag"));
      default -> throw new IllegalArgumentException("no operation " + op);
    }
    return Map.of();
  }

  private Map<String, Object> publish(Open o, JsonObject r) throws Exception {
    JsonObject m = r.has("message") ? r.getAsJsonObject("message") : new JsonObject();
    AMQP.BasicProperties.Builder b = new AMQP.BasicProperties.Builder().headers(table(m, "headers"));
    if (m.has("content_type")) b.contentType(text(m, "content_type"));
    if (m.has("content_encoding")) b.contentEncoding(text(m, "content_encoding"));
    if (flag(m, "persistent")) b.deliveryMode(2);
    if (m.has("priority")) b.priority((int) number(m, "priority"));
    if (m.has("correlation_id")) b.correlationId(text(m, "correlation_id"));
    if (m.has("reply_to")) b.replyTo(text(m, "reply_to"));
    if (m.has("expiration")) b.expiration(text(m, "expiration"));
    if (m.has("message_id")) b.messageId(text(m, "message_id"));
    if (m.has("timestamp")) b.timestamp(new Date(number(m, "timestamp") * 1000));
    if (m.has("type")) b.type(text(m, "type"));
    if (m.has("user_id")) b.userId(text(m, "user_id"));
    if (m.has("app_id")) b.appId(text(m, "app_id"));
    o.returned.set(0);
    o.channel.basicPublish(text(r, "exchange"), text(r, "key"), flag(r, "mandatory"), b.build(), text(r, "body").getBytes(StandardCharsets.UTF_8));
    if (!o.confirming) {
      return Map.of();
    }
    boolean acked = o.channel.waitForConfirms(60_000);
    return Map.of("acked", acked, "returned", o.returned.get());
  }

  private static Map<String, Object> delivery(String tag, Envelope e, AMQP.BasicProperties p, byte[] body) {
    Map<String, Object> d = new HashMap<>();
    d.put("tag", tag);
    d.put("number", e.getDeliveryTag());
    d.put("redelivered", e.isRedeliver());
    d.put("exchange", e.getExchange());
    d.put("key", e.getRoutingKey());
    d.put("body", new String(body, StandardCharsets.UTF_8));
    d.put("content_type", p.getContentType());
    d.put("content_encoding", p.getContentEncoding());
    d.put("persistent", p.getDeliveryMode() != null && p.getDeliveryMode() == 2);
    d.put("priority", p.getPriority());
    d.put("correlation_id", p.getCorrelationId());
    d.put("reply_to", p.getReplyTo());
    d.put("expiration", p.getExpiration());
    d.put("message_id", p.getMessageId());
    d.put("timestamp", p.getTimestamp() == null ? null : p.getTimestamp().getTime() / 1000);
    d.put("type", p.getType());
    d.put("user_id", p.getUserId());
    d.put("app_id", p.getAppId());
    d.put("headers", plain(p.getHeaders()));
    return d;
  }

  /** A table of JSON as the library wants it. */
  private static Map<String, Object> table(JsonObject r, String name) {
    if (!r.has(name)) {
      return null;
    }
    Map<String, Object> m = GSON.fromJson(r.get(name), new TypeToken<LinkedHashMap<String, Object>>() {}.getType());
    m.replaceAll((k, v) -> field(v));
    return m;
  }

  private static Object field(Object v) {
    if (v instanceof Double d) {
      return d.longValue();
    }
    if (v instanceof List<?> list) {
      List<Object> out = new ArrayList<>();
      list.forEach(x -> out.add(field(x)));
      return out;
    }
    if (v instanceof Map<?, ?> m) {
      if (m.get("time") instanceof Double d) {
        return new Date(d.longValue() * 1000);
      }
      Map<String, Object> out = new HashMap<>();
      m.forEach((k, x) -> out.put((String) k, field(x)));
      return out;
    }
    return v;
  }

  private static Object plain(Object v) {
    if (v instanceof LongString s) {
      return s.toString();
    }
    if (v instanceof Date d) {
      return Map.of("time", d.getTime() / 1000);
    }
    if (v instanceof List<?> list) {
      List<Object> out = new ArrayList<>();
      list.forEach(x -> out.add(plain(x)));
      return out;
    }
    if (v instanceof Map<?, ?> m) {
      Map<String, Object> out = new HashMap<>();
      m.forEach((k, x) -> out.put((String) k, plain(x)));
      return out;
    }
    return v;
  }
}
