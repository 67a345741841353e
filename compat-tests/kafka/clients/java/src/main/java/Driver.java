import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The driver for Kafka's own Java client; the conversation is described in clients/proto. */
public final class Driver {
  interface Op {
    Map<String, String> run(Map<String, String> args) throws Exception;
  }

  static final Object OUT = new Object();

  static void say(String line) {
    synchronized (OUT) {
      System.out.println(line);
      System.out.flush();
    }
  }

  static String words(Map<String, String> args) {
    StringBuilder s = new StringBuilder();
    args.forEach((k, v) -> s.append(' ').append(k).append('=').append(v));
    return s.toString();
  }

  private final String bootstrap;
  private final Map<String, Member> members = new ConcurrentHashMap<>();
  private final Map<String, KafkaProducer<String, String>> producers = new ConcurrentHashMap<>();
  private final ExecutorService threads = Executors.newCachedThreadPool();

  private Driver(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  public static void main(String[] args) throws Exception {
    new Driver(args[0]).serve();
    System.exit(0);
  }

  private void serve() throws Exception {
    Admin client = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap));
    Map<String, Op> ops = new HashMap<>(new Administration(client).ops());
    ops.put("hello", a -> Map.of("version", AppInfoParser.getVersion()));
    ops.put("produce", this::produce);
    ops.put("consume", this::consume);
    ops.put("join", this::join);
    ops.put("leave", this::leave);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      String[] w = line.trim().split("\\s+");
      Map<String, String> a = new HashMap<>();
      for (int i = 2; i < w.length; i++) {
        int eq = w[i].indexOf('=');
        a.put(w[i].substring(0, eq), w[i].substring(eq + 1));
      }
      Op op = ops.get(w[1]);
      if (op == null) {
        say(w[0] + " unsupported");
        continue;
      }
      threads.submit(() -> {
        try {
          Map<String, String> out = op.run(a);
          say(w[0] + " ok" + words(out == null ? Map.of() : out));
        } catch (Throwable e) {
          Throwable cause = e instanceof java.util.concurrent.ExecutionException ? e.getCause() : e;
          say(w[0] + " err " + cause.toString().replace('\n', ' '));
        }
      });
    }
  }

  private Properties properties(Map<String, String> more) {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.putAll(more);
    return p;
  }

  private Map<String, String> produce(Map<String, String> a) throws Exception {
    boolean idempotent = "1".equals(a.get("idempotent"));
    Properties p = properties(Map.of(
        ProducerConfig.COMPRESSION_TYPE_CONFIG, a.get("codec"),
        ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, String.valueOf(idempotent),
        ProducerConfig.ACKS_CONFIG, "all",
        ProducerConfig.LINGER_MS_CONFIG, "5"));
    KafkaProducer<String, String> producer = idempotent
        ? producers.computeIfAbsent(a.get("topic"), t -> new KafkaProducer<>(p, new StringSerializer(), new StringSerializer()))
        : new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    try {
      long from = Long.parseLong(a.get("from"));
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (long i = from; i < from + Long.parseLong(a.get("count")); i++) {
        RecordHeaders headers = new RecordHeaders();
        headers.add("n", String.valueOf(i).getBytes(StandardCharsets.UTF_8));
        Long ts = a.containsKey("ts") ? Long.parseLong(a.get("ts")) + i : null;
        int part = (int) (i % Long.parseLong(a.get("parts")));
        sent.add(producer.send(new ProducerRecord<>(a.get("topic"), part, ts, "k" + i, "v" + i + ".".repeat(100), headers)));
      }
      for (Future<RecordMetadata> f : sent) {
        f.get();
      }
    } finally {
      if (!idempotent) {
        producer.close();
      }
    }
    return null;
  }

  static String name(String value) {
    return value.replaceAll("\\.+$", "");
  }

  private Map<String, String> consume(Map<String, String> a) {
    TopicPartition tp = new TopicPartition(a.get("topic"), Integer.parseInt(a.get("part")));
    int count = Integer.parseInt(a.get("count"));
    List<String> recs = new ArrayList<>();
    try (KafkaConsumer<String, String> c = new KafkaConsumer<>(properties(Map.of()), new StringDeserializer(), new StringDeserializer())) {
      c.assign(List.of(tp));
      long at = a.containsKey("time")
          ? c.offsetsForTimes(Map.of(tp, Long.parseLong(a.get("time")))).get(tp).offset()
          : Long.parseLong(a.get("offset"));
      c.seek(tp, at);
      while (recs.size() < count) {
        for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
          recs.add(r.offset() + ":" + name(r.value()));
        }
      }
    }
    return Map.of("recs", String.join(",", recs.subList(0, count)));
  }

  /** A group member: polls on its own thread until told to leave. */
  private final class Member implements Runnable, ConsumerRebalanceListener {
    private final String name;
    private final KafkaConsumer<String, String> consumer;
    private final TreeSet<String> parts = new TreeSet<>();
    private volatile boolean leaving;
    private Future<?> done;

    Member(String name, Properties p) {
      this.name = name;
      consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    @Override
    public void run() {
      try (consumer) {
        while (!leaving) {
          int n = 0;
          for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) {
            say("! rec member=" + name + " part=" + r.topic() + "-" + r.partition() + " offset=" + r.offset() + " value=" + name(r.value()));
            n++;
          }
          if (n > 0) {
            commit();
          }
        }
        commit();
      } catch (RuntimeException e) {
        System.err.println(name + " " + e);
        throw e;
      }
    }

    /**
     * In a cooperative rebalance a commit may have to wait, and one for a coordinator that does not
     * know the member yet fails: the next one covers it.
     */
    private void commit() {
      try {
        consumer.commitSync();
      } catch (CommitFailedException | RebalanceInProgressException e) {
        System.err.println(name + " " + e);
      }
    }

    private void tell() {
      say("! assigned member=" + name + " parts=" + String.join(",", parts));
    }

    @Override
    public void onPartitionsRevoked(java.util.Collection<TopicPartition> tps) {
      tps.forEach(tp -> parts.remove(tp.topic() + "-" + tp.partition()));
      tell();
    }

    @Override
    public void onPartitionsAssigned(java.util.Collection<TopicPartition> tps) {
      tps.forEach(tp -> parts.add(tp.topic() + "-" + tp.partition()));
      tell();
    }
  }

  private Map<String, String> join(Map<String, String> a) {
    Properties p = properties(Map.of(
        ConsumerConfig.GROUP_ID_CONFIG, a.get("group"),
        ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false",
        ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
        ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "300",
        ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, "30000",
        ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "200",
        ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG,
        "cooperative".equals(a.get("assignor")) ? CooperativeStickyAssignor.class.getName() : RangeAssignor.class.getName()));
    if (a.containsKey("instance")) {
      p.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, a.get("instance"));
    }
    Member m = new Member(a.get("member"), p);
    m.consumer.subscribe(List.of(a.get("topic")), m);
    members.put(a.get("member"), m);
    m.done = threads.submit(m);
    return null;
  }

  private Map<String, String> leave(Map<String, String> a) throws Exception {
    Member m = members.get(a.get("member"));
    m.leaving = true;
    m.done.get();
    return null;
  }
}
