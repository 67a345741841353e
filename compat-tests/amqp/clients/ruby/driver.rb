# The driver for bunny; the conversation is described in clients/proto.

require "bunny"
require "json"

OUT = Mutex.new
PROPERTIES = %w[content_type content_encoding priority correlation_id reply_to expiration message_id type user_id app_id].freeze

def say(line)
  OUT.synchronize do
    $stdout.puts(JSON.generate(line))
    $stdout.flush
  end
end

# A value of JSON as the library wants it.
def field(v)
  case v
  when Hash then v.key?("time") ? Time.at(v["time"]) : v.transform_values { |x| field(x) }
  when Array then v.map { |x| field(x) }
  else v
  end
end

# A value of the library as JSON has it.
def plain(v)
  case v
  when Time then { "time" => v.to_i }
  when Hash then v.transform_values { |x| plain(x) }
  when Array then v.map { |x| plain(x) }
  when String then v.dup.force_encoding("UTF-8")
  else v
  end
end

def delivery(info, properties, body)
  d = {
    tag: info.respond_to?(:consumer_tag) ? info.consumer_tag : "", number: info.delivery_tag.to_i, redelivered: info.redelivered, exchange: info.exchange,
    key: info.routing_key, body: body.dup.force_encoding("UTF-8"), persistent: properties[:delivery_mode] == 2,
  }
  PROPERTIES.each { |p| d[p] = properties[p.to_sym] if properties[p.to_sym] }
  d["timestamp"] = properties[:timestamp].to_i if properties[:timestamp]
  d["headers"] = plain(properties[:headers]) if properties[:headers]
  d
end

class Driver
  def initialize(addr)
    @host, @port = addr.split(":")
    @channels, @confirming, @returned = {}, {}, {}
  end

  def run
    $stdin.each_line do |line|
      r = JSON.parse(line)
      begin
        out = op(r)
        say(id: r["id"], ok: out.is_a?(Hash) ? out : {})
      rescue Bunny::ChannelLevelException => e
        say(id: r["id"], error: { code: e.channel_close.reply_code, text: e.channel_close.reply_text })
      rescue StandardError => e
        say(id: r["id"], error: { code: 0, text: "#{e.class}: #{e.message}" })
      end
    end
  end

  def op(r)
    name = r["ch"]
    case r["op"]
    when "hello"
      @connection = Bunny.new(host: @host, port: @port.to_i, heartbeat: 2, automatically_recover: false, logger: Logger.new($stderr, level: :error))
      @connection.start
      return { client: "bunny", version: Bunny::VERSION }
    when "channel"
      ch = @connection.create_channel
      @channels[name], @confirming[name] = ch, false
      ch.default_exchange.on_return { |info, _, _| @returned[name] = info.reply_code }
      return {}
    end
    ch, args = @channels[name], field(r["args"] || {})
    case r["op"]
    when "close" then ch.close
    when "confirm"
      ch.confirm_select
      @confirming[name] = true
    when "tx" then ch.tx_select
    when "commit" then ch.tx_commit
    when "rollback" then ch.tx_rollback
    when "exchange" then ch.exchange_declare(r["name"], r["type"], durable: !!r["durable"], internal: !!r["internal"], arguments: args)
    when "queue"
      q = ch.queue_declare(r["name"] || "", passive: !!r["passive"], durable: !!r["durable"], exclusive: !!r["exclusive"], auto_delete: !!r["auto_delete"], arguments: args)
      { name: q.queue, messages: q.message_count, consumers: q.consumer_count }
    when "bind" then ch.queue_bind(r["queue"], r["exchange"], routing_key: r["key"] || "", arguments: args)
    when "unbind" then ch.queue_unbind(r["queue"], r["exchange"], routing_key: r["key"] || "", arguments: args)
    when "xbind" then ch.exchange_bind(r["source"], r["destination"], routing_key: r["key"] || "")
    when "purge" then { messages: ch.queue_purge(r["queue"]).message_count }
    when "delete" then ch.queue_delete(r["queue"])
    when "publish" then publish(ch, name, r)
    when "qos" then ch.basic_qos(r["prefetch"])
    when "consume"
      consumer = Bunny::Consumer.new(ch, r["queue"], r["tag"], !!r["no_ack"], !!r["exclusive"], args)
      consumer.on_delivery { |info, properties, body| say(event: "deliver", ch: name, delivery: delivery(info, properties, body)) }
      consumer.on_cancellation { say(event: "cancelled", ch: name, tag: r["tag"]) }
      ch.basic_consume_with(consumer)
    when "get"
      info, properties, body = ch.basic_get(r["queue"], manual_ack: !r["no_ack"])
      info ? { delivery: delivery(info, properties, body) } : { empty: true }
    when "ack" then ch.basic_ack(r["number"] || 0, !!r["multiple"])
    when "nack" then ch.basic_nack(r["number"] || 0, !!r["multiple"], !!r["requeue"])
    when "reject" then ch.basic_reject(r["number"] || 0, !!r["requeue"])
    when "cancel" then ch.basic_cancel(r["tag"])
    else raise "no operation #{r['op']}"
    end
  end

  def publish(ch, name, r)
    m = r["message"] || {}
    options = PROPERTIES.select { |p| m.key?(p) }.to_h { |p| [p.to_sym, m[p]] }
    options[:persistent] = !!m["persistent"]
    options[:timestamp] = m["timestamp"] if m["timestamp"]
    options[:headers] = field(m["headers"]) if m["headers"]
    options[:mandatory] = !!r["mandatory"]
    @returned[name] = 0
    ch.basic_publish(r["body"] || "", r["exchange"] || "", r["key"] || "", options)
    return {} unless @confirming[name]

    acked = ch.wait_for_confirms
    { acked: acked, returned: @returned[name] }
  end
end

Driver.new(ARGV[0]).run
