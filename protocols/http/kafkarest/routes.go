package kafkarest

// routes are the calls, as the documentation of the REST proxy lists them.
var routes = []struct {
	method, path string
	do           handler
}{
	{"GET", "/brokers", listBrokers},
	{"GET", "/topics", listTopics},
	{"GET", "/topics/{topic}", getTopic},
	{"POST", "/topics/{topic}", produce},
	{"GET", "/topics/{topic}/partitions", listPartitions},
	{"GET", "/topics/{topic}/partitions/{partition}", getPartition},
	{"POST", "/topics/{topic}/partitions/{partition}", produce},
	{"GET", "/topics/{topic}/partitions/{partition}/offsets", getOffsets},

	{"POST", "/consumers/{group}", createInstance},
	{"DELETE", "/consumers/{group}/instances/{instance}", deleteInstance},
	{"POST", "/consumers/{group}/instances/{instance}/subscription", subscribe},
	{"GET", "/consumers/{group}/instances/{instance}/subscription", getSubscription},
	{"DELETE", "/consumers/{group}/instances/{instance}/subscription", unsubscribe},
	{"POST", "/consumers/{group}/instances/{instance}/assignments", assign},
	{"GET", "/consumers/{group}/instances/{instance}/assignments", getAssignments},
	{"POST", "/consumers/{group}/instances/{instance}/positions", seek},
	{"POST", "/consumers/{group}/instances/{instance}/positions/beginning", seekToBeginning},
	{"POST", "/consumers/{group}/instances/{instance}/positions/end", seekToEnd},
	{"GET", "/consumers/{group}/instances/{instance}/records", readRecords},
	{"POST", "/consumers/{group}/instances/{instance}/offsets", commitOffsets},
	{"GET", "/consumers/{group}/instances/{instance}/offsets", committedOffsets},

	{"GET", "/v3/clusters", listClusters},
	{"GET", "/v3/clusters/{cluster}", getCluster},
	{"GET", "/v3/clusters/{cluster}/topics", listTopicsV3},
	{"POST", "/v3/clusters/{cluster}/topics", createTopicV3},
	{"GET", "/v3/clusters/{cluster}/topics/{topic}", getTopicV3},
	{"DELETE", "/v3/clusters/{cluster}/topics/{topic}", deleteTopicV3},
	{"GET", "/v3/clusters/{cluster}/topics/{topic}/partitions", listPartitionsV3},
	{"GET", "/v3/clusters/{cluster}/topics/{topic}/partitions/{partition}", getPartitionV3},
	{"POST", "/v3/clusters/{cluster}/topics/{topic}/records", produceV3},
}
