import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The operations that go through the Java client's Admin. */
final class Administration {
  private final Admin admin;

  Administration(Admin admin) {
    this.admin = admin;
  }

  Map<String, Driver.Op> ops() {
    Map<String, Driver.Op> ops = new HashMap<>();
    ops.put("create", this::create);
    ops.put("delete", a -> {
      admin.deleteTopics(List.of(a.get("topic"))).all().get();
      return null;
    });
    ops.put("topics", a -> Map.of("topics", String.join(",", admin.listTopics().names().get())));
    ops.put("describe", a -> Map.of("parts", String.valueOf(
        admin.describeTopics(List.of(a.get("topic"))).allTopicNames().get().get(a.get("topic")).partitions().size())));
    ops.put("addparts", a -> {
      admin.createPartitions(Map.of(a.get("topic"), NewPartitions.increaseTo(Integer.parseInt(a.get("total"))))).all().get();
      return null;
    });
    ops.put("getconfig", a -> {
      ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, a.get("topic"));
      return Map.of("value", admin.describeConfigs(List.of(r)).all().get().get(r).get(a.get("key")).value());
    });
    ops.put("setconfig", a -> {
      ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, a.get("topic"));
      AlterConfigOp op = new AlterConfigOp(new ConfigEntry(a.get("key"), a.get("value")), AlterConfigOp.OpType.SET);
      admin.incrementalAlterConfigs(Map.of(r, List.of(op))).all().get();
      return null;
    });
    ops.put("groups", this::groups);
    ops.put("describegroup", this::describeGroup);
    ops.put("offsets", this::offsets);
    ops.put("setoffset", a -> {
      TopicPartition tp = new TopicPartition(a.get("topic"), Integer.parseInt(a.get("part")));
      OffsetAndMetadata at = new OffsetAndMetadata(Long.parseLong(a.get("offset")));
      admin.alterConsumerGroupOffsets(a.get("group"), Map.of(tp, at)).all().get();
      return null;
    });
    ops.put("deletegroup", a -> {
      admin.deleteConsumerGroups(List.of(a.get("group"))).all().get();
      return null;
    });
    ops.put("deleterecords", a -> {
      TopicPartition tp = new TopicPartition(a.get("topic"), Integer.parseInt(a.get("part")));
      RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(a.get("before")));
      return Map.of("low", String.valueOf(
          admin.deleteRecords(Map.of(tp, before)).lowWatermarks().get(tp).get().lowWatermark()));
    });
    ops.put("bounds", this::bounds);
    return ops;
  }

  private Map<String, String> create(Map<String, String> a) throws Exception {
    NewTopic t = new NewTopic(a.get("topic"), Optional.of(Integer.parseInt(a.get("parts"))), Optional.empty());
    if (a.containsKey("config")) {
      String[] kv = a.get("config").split(":");
      t.configs(Map.of(kv[0], kv[1]));
    }
    admin.createTopics(List.of(t)).all().get();
    return null;
  }

  // The names that fit the oldest client tested: newer ones deprecate them, and 4.x still has them.
  @SuppressWarnings({"deprecation", "removal"})
  private Map<String, String> groups(Map<String, String> a) throws Exception {
    return Map.of("groups", admin.listConsumerGroups().all().get().stream()
        .map(g -> g.groupId()).collect(Collectors.joining(",")));
  }

  @SuppressWarnings({"deprecation", "removal"})
  private Map<String, String> describeGroup(Map<String, String> a) throws Exception {
    ConsumerGroupDescription d = admin.describeConsumerGroups(List.of(a.get("group"))).all().get().get(a.get("group"));
    return Map.of("state", d.state().toString(), "members", String.valueOf(d.members().size()));
  }

  private Map<String, String> offsets(Map<String, String> a) throws Exception {
    return Map.of("offsets", admin.listConsumerGroupOffsets(a.get("group")).partitionsToOffsetAndMetadata().get()
        .entrySet().stream().map(e -> e.getKey().partition() + ":" + e.getValue().offset())
        .collect(Collectors.joining(",")));
  }

  private Map<String, String> bounds(Map<String, String> a) throws Exception {
    TopicPartition tp = new TopicPartition(a.get("topic"), Integer.parseInt(a.get("part")));
    long low = admin.listOffsets(Map.of(tp, OffsetSpec.earliest())).partitionResult(tp).get().offset();
    long high = admin.listOffsets(Map.of(tp, OffsetSpec.latest())).partitionResult(tp).get().offset();
    return Map.of("low", String.valueOf(low), "high", String.valueOf(high));
  }
}
