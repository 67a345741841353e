package load

import (
	"context"
	"fmt"
	"strconv"
)

// Publisher publishes messages of some keys, in batches, each batch until it is stored, and once.
type Publisher struct {
	Client *Client
	Ledger *Ledger
	Topic  string
	Keys   int
	Run    uint64 // tells its batches from those of other publishers

	batches, next int
}

// Publish publishes a batch of so many messages.
func (p *Publisher) Publish(ctx context.Context, messages int) error {
	type published struct {
		Key   string  `json:"key"`
		Value Message `json:"value"`
	}
	var batch struct {
		Messages []published `json:"messages"`
	}
	for range messages {
		key := "key-" + strconv.Itoa(p.next%p.Keys)
		p.next++
		batch.Messages = append(batch.Messages, published{key, p.Ledger.Next(key)})
	}
	p.batches++
	return p.Client.Insist(ctx, "POST", "/v1/topics/"+p.Topic+"/messages", batch, nil, "Idempotency-Key", fmt.Sprint(p.Run, "-", p.batches))
}
