"""Logs in with confluent-kafka, on librdkafka, and produces one record:
sasl.py bootstrap mechanism user password topic"""

import sys

import confluent_kafka as ck

bootstrap, mechanism, user, password, topic = sys.argv[1:]
errors = []
producer = ck.Producer({
    "bootstrap.servers": bootstrap,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": mechanism,
    "sasl.username": user,
    "sasl.password": password,
    "message.timeout.ms": 60000,
    "error_cb": errors.append,
})
delivered = []
producer.produce(topic, mechanism, on_delivery=lambda e, m: delivered.append(e))
while not delivered and not any(e.code() == ck.KafkaError._AUTHENTICATION for e in errors):
    producer.poll(0.1)
if delivered != [None]:
    sys.exit(f"delivered {delivered}, errors {errors}")
