<?php
// The driver for php-amqplib; the conversation is described in clients/proto. The library runs callbacks
// only while it is asked to, so the one loop here lets it work and looks for the runner's next line in turn.

declare(strict_types=1);

require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPBasicCancelException;
use PhpAmqpLib\Exception\AMQPProtocolException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const PROPERTIES = ['content_type', 'content_encoding', 'priority', 'correlation_id', 'reply_to', 'expiration', 'message_id', 'timestamp', 'type', 'user_id', 'app_id'];

function say(array $line): void
{
    fwrite(STDOUT, json_encode($line, JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR) . "\n");
}

/** A value of JSON as the library wants it. */
function field(mixed $v): mixed
{
    if ($v instanceof stdClass) {
        $v = (array) $v;
        if (isset($v['time'])) {
            return new DateTime('@' . $v['time']);
        }
        return new AMQPTable(array_map('field', $v));
    }
    return is_array($v) ? array_map('field', $v) : $v;
}

function table(mixed $v): AMQPTable
{
    return new AMQPTable(array_map('field', (array) $v));
}

/** A value of the library as JSON has it. */
function plain(mixed $v): mixed
{
    if ($v instanceof DateTimeInterface) {
        return ['time' => $v->getTimestamp()];
    }
    if ($v instanceof AMQPTable) {
        $v = $v->getNativeData();
    }
    return is_array($v) ? array_map('plain', $v) : $v;
}

function delivery(AMQPMessage $m): array
{
    $d = [
        'tag' => (string) ($m->getConsumerTag() ?? ''), 'number' => (int) $m->getDeliveryTag(), 'redelivered' => (bool) $m->isRedelivered(), 'exchange' => (string) $m->getExchange(),
        'key' => (string) $m->getRoutingKey(), 'body' => $m->getBody(),
    ];
    foreach (PROPERTIES as $name) {
        if ($m->has($name)) {
            $d[$name] = $m->get($name);
        }
    }
    if ($m->has('delivery_mode')) {
        $d['persistent'] = $m->get('delivery_mode') === AMQPMessage::DELIVERY_MODE_PERSISTENT;
    }
    if ($m->has('application_headers')) {
        $headers = plain($m->get('application_headers'));
        $d['headers'] = $headers === [] ? new stdClass() : $headers;
    }
    return $d;
}

final class Driver
{
    private ?AMQPStreamConnection $connection = null;
    private array $channels = [];
    private array $confirming = [];
    private int $returned = 0;
    private ?bool $acked = null;
    private int $events = 0;

    public function __construct(private string $addr)
    {
    }

    public function run(): void
    {
        stream_set_blocking(STDIN, false);
        $buffer = '';
        while (true) {
            $read = [STDIN];
            $none = [];
            if (stream_select($read, $none, $none, 0, 10_000) > 0) {
                $piece = fread(STDIN, 1 << 20);
                if ($piece === '' && feof(STDIN)) {
                    return;
                }
                $buffer .= $piece;
            }
            while (($end = strpos($buffer, "\n")) !== false) {
                $this->answer(json_decode(substr($buffer, 0, $end), false, 512, JSON_THROW_ON_ERROR));
                $buffer = substr($buffer, $end + 1);
            }
            $this->work();
        }
    }

    /** Lets callbacks run. */
    private function work(): void
    {
        if ($this->connection === null || !$this->connection->isConnected()) {
            return;
        }
        $this->connection->checkHeartBeat();
        foreach ($this->channels as $name => $channel) {
            do {
                $before = $this->events;
                if ($channel->is_open()) {
                    $this->hear($name, $channel);
                }
            } while ($this->events > $before);
        }
    }

    /** Takes one frame of a channel, if there is one. */
    private function hear(string $name, AMQPChannel $channel): void
    {
        try {
            $channel->wait(null, true);
        } catch (AMQPBasicCancelException $e) {
            $this->events++;
            say(['event' => 'cancelled', 'ch' => $name, 'tag' => $e->consumerTag]);
        }
    }

    private function answer(stdClass $r): void
    {
        try {
            say(['id' => $r->id, 'ok' => (object) ($this->op($r) ?? [])]);
        } catch (AMQPProtocolException $e) {
            say(['id' => $r->id, 'error' => ['code' => $e->amqp_reply_code, 'text' => $e->amqp_reply_text]]);
        } catch (Throwable $e) {
            say(['id' => $r->id, 'error' => ['code' => 0, 'text' => get_class($e) . ': ' . $e->getMessage()]]);
        }
    }

    private function op(stdClass $r): ?array
    {
        $name = $r->ch ?? '';
        if ($r->op === 'hello') {
            [$host, $port] = explode(':', $this->addr);
            $this->connection = new AMQPStreamConnection($host, (int) $port, 'guest', 'guest', '/', heartbeat: 2, read_write_timeout: 60);
            return ['client' => 'php-amqplib', 'version' => '3.5'];
        }
        if ($r->op === 'channel') {
            $ch = $this->channels[$name] = $this->connection->channel();
            $this->confirming[$name] = false;
            $ch->set_return_listener(function ($code): void {
                $this->returned = (int) $code;
            });
            return null;
        }
        $ch = $this->channels[$name];
        $args = isset($r->args) ? table($r->args) : [];
        switch ($r->op) {
            case 'close':
                $ch->close();
                unset($this->channels[$name]);
                return null;
            case 'confirm':
                $ch->confirm_select();
                $ch->set_ack_handler(function (): void {
                    $this->acked = true;
                });
                $ch->set_nack_handler(function (): void {
                    $this->acked = false;
                });
                $this->confirming[$name] = true;
                return null;
            case 'tx':
                $ch->tx_select();
                return null;
            case 'commit':
                $ch->tx_commit();
                return null;
            case 'rollback':
                $ch->tx_rollback();
                return null;
            case 'exchange':
                $ch->exchange_declare($r->name, $r->type, false, $r->durable ?? false, false, $r->internal ?? false, false, $args);
                return null;
            case 'queue':
                [$queue, $messages, $consumers] = $ch->queue_declare(
                    $r->name ?? '', $r->passive ?? false, $r->durable ?? false, $r->exclusive ?? false, $r->auto_delete ?? false, false, $args,
                );
                return ['name' => $queue, 'messages' => (int) $messages, 'consumers' => (int) $consumers];
            case 'bind':
                $ch->queue_bind($r->queue, $r->exchange, $r->key ?? '', false, $args);
                return null;
            case 'unbind':
                $ch->queue_unbind($r->queue, $r->exchange, $r->key ?? '', $args);
                return null;
            case 'xbind':
                $ch->exchange_bind($r->destination, $r->source, $r->key ?? '');
                return null;
            case 'purge':
                return ['messages' => (int) $ch->queue_purge($r->queue)];
            case 'delete':
                $ch->queue_delete($r->queue);
                return null;
            case 'publish':
                return $this->publish($ch, $name, $r);
            case 'qos':
                $ch->basic_qos(0, $r->prefetch, false);
                return null;
            case 'consume':
                $ch->basic_consume($r->queue, $r->tag ?? '', false, $r->no_ack ?? false, $r->exclusive ?? false, false, function (AMQPMessage $m) use ($name): void {
                    $this->events++;
                    say(['event' => 'deliver', 'ch' => $name, 'delivery' => delivery($m)]);
                }, null, $args);
                return null;
            case 'get':
                $m = $ch->basic_get($r->queue, $r->no_ack ?? false);
                return $m === null ? ['empty' => true] : ['delivery' => delivery($m)];
            case 'ack':
                $ch->basic_ack($r->number ?? 0, $r->multiple ?? false);
                return null;
            case 'nack':
                $ch->basic_nack($r->number ?? 0, $r->multiple ?? false, $r->requeue ?? false);
                return null;
            case 'reject':
                $ch->basic_reject($r->number ?? 0, $r->requeue ?? false);
                return null;
            case 'cancel':
                $ch->basic_cancel($r->tag);
                return null;
        }
        throw new RuntimeException("no operation {$r->op}");
    }

    private function publish($ch, string $name, stdClass $r): array
    {
        $properties = [];
        foreach (PROPERTIES as $property) {
            if (isset($r->message->$property)) {
                $properties[$property] = $r->message->$property;
            }
        }
        if ($r->message->persistent ?? false) {
            $properties['delivery_mode'] = AMQPMessage::DELIVERY_MODE_PERSISTENT;
        }
        if (isset($r->message->headers)) {
            $properties['application_headers'] = table($r->message->headers);
        }
        $this->returned = 0;
        $this->acked = null;
        $ch->basic_publish(new AMQPMessage($r->body ?? '', $properties), $r->exchange ?? '', $r->key ?? '', $r->mandatory ?? false);
        if (!$this->confirming[$name]) {
            return [];
        }
        $ch->wait_for_pending_acks_returns(60);
        return ['acked' => $this->acked === true, 'returned' => $this->returned];
    }
}

(new Driver($argv[1]))->run();
