// The contenders in Go, for ../run.py, which has the protocol that all these programs speak.
//
//	field NAME HOST PORT[,PORT…] PAGE
//
// Several ports are independent masters, for redsync.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sys/unix"
)

const lease = 10 * time.Second

var forever = context.Background()

type lock interface {
	acquire()
	release()
}

// A contender makes locks under a name.
type contender func(name string) lock

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ------------------------------------------------------------------ rueidislock

type rueidisLock struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

// A waiter without a message asks again after two seconds: its wake-up may have been lost, and
// while the lock is free no other arrives.
func (l *rueidisLock) acquire() {
	for {
		waiting, stop := context.WithCancel(forever)
		timer := time.AfterFunc(2*time.Second, stop)
		_, cancel, err := l.locker.WithContext(waiting, l.name)
		inTime := timer.Stop()
		if err == nil && inTime {
			l.cancel = func() { cancel(); stop() }
			return
		}
		if err == nil {
			cancel()
		} else if inTime {
			check(err)
		}
		stop()
	}
}

func (l *rueidisLock) release() { l.cancel() }

// With its defaults for one server, and as its documentation advises from Redis 7.0.5 on: otherwise
// each renewal makes it renew again. It renews every lock, after half of its lease.
func rueidisLocks(address string, lease time.Duration) contender {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}},
		KeyValidity:  lease,
		KeyMajority:  1,

		NoLoopTracking: true,
	})
	check(err)
	return func(name string) lock { return &rueidisLock{locker: locker, name: name} }
}

// ---------------------------------------------------------------------- redsync

type redsyncLock struct{ mutex *redsync.Mutex }

func (l *redsyncLock) acquire() {
	for {
		err := l.mutex.Lock()
		var taken *redsync.ErrTaken
		if err == nil {
			return
		}
		if !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
			check(err)
		}
	}
}

func (l *redsyncLock) release() {
	_, err := l.mutex.Unlock()
	check(err)
}

func redsyncLocks(addresses []string) contender {
	var pools []redsyncredis.Pool
	for _, address := range addresses {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: address})))
	}
	all := redsync.New(pools...)
	return func(name string) lock {
		return &redsyncLock{all.NewMutex(name, redsync.WithExpiry(lease))}
	}
}

// ---------------------------------------------------------------- bsm/redislock

type bsmLock struct {
	client *redislock.Client
	name   string
	held   *redislock.Lock
}

func (l *bsmLock) acquire() {
	// Without a deadline it gives up after a lease.
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	for {
		held, err := l.client.Obtain(forever, l.name, lease, options)
		if err == nil {
			l.held = held
			return
		}
		if !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded) {
			check(err)
		}
	}
}

func (l *bsmLock) release() { check(l.held.Release(forever)) }

func bsmLocks(address string) contender {
	client := redislock.New(redis.NewClient(&redis.Options{Addr: address}))
	return func(name string) lock { return &bsmLock{client: client, name: name} }
}

func connect(kind string, addresses []string) contender {
	address := addresses[0]
	switch kind {
	case "rueidislock":
		return rueidisLocks(address, lease)
	case "redsync":
		return redsyncLocks(addresses)
	case "redislock":
		return bsmLocks(address)
	}
	check(fmt.Errorf("no contender is called %s", kind))
	return nil
}

// ------------------------------------------------------------------------ Tasks

// The page of run.py. No atomic operations, on purpose.
type page struct{ inside, turns, last, changes, violations int64 }

var shared *page
var key string // each contender has keys of its own

// Does the work of a holder: nothing, but it notices company.
func takeTurn(me int64) {
	if shared.inside != 0 {
		shared.violations++
	}
	shared.inside = me
	turns := shared.turns
	if shared.last != me {
		shared.last = me
		shared.changes++
	}
	shared.turns = turns + 1
	stay(me)
	if shared.inside != me {
		shared.violations++
	}
	shared.inside = 0
}

// Keeps the compiler from remembering what it wrote.
//
//go:noinline
func stay(int64) {}

// The clock that the other processes also use.
func now() int64 {
	var at unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &at))
	return at.Nano()
}

var crowd []lock // connected, from crowd to crowd

func runCrowd(it contender, count int, first, begin, end int64) any {
	turns, longest := make([]int64, count), make([]int64, count)
	for len(crowd) < count {
		crowd = append(crowd, it(key+":crowd"))
	}
	var waiters sync.WaitGroup
	for i := 0; i < count; i++ {
		waiters.Add(1)
		go func(i int) {
			defer waiters.Done()
			time.Sleep(time.Duration(begin - now()))
			for at := begin; at < end; {
				since := now()
				crowd[i].acquire()
				at = now()
				longest[i] = max(longest[i], min(at, end)-since)
				if at < end {
					takeTurn(first + int64(i) + 1)
					turns[i]++
				}
				crowd[i].release()
			}
		}(i)
	}
	waiters.Wait()
	return map[string]any{"turns": turns, "longest": longest}
}

func runPairs(lock lock, count int64) any {
	since := now()
	for i := int64(0); i < count; i++ {
		lock.acquire()
		lock.release()
	}
	return map[string]int64{"ns": (now() - since) / count}
}

func main() {
	if len(os.Args) != 5 {
		check(errors.New("usage: field NAME HOST PORT[,PORT...] PAGE"))
	}
	key = os.Args[1]
	kind := key
	var addresses []string
	for _, port := range strings.Split(os.Args[3], ",") {
		addresses = append(addresses, os.Args[2]+":"+port)
	}
	file, err := os.OpenFile(os.Args[4], os.O_RDWR, 0)
	check(err)
	size := int(unsafe.Sizeof(page{}))
	bytes, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(err)
	shared = (*page)(unsafe.Pointer(&bytes[0]))

	it := connect(kind, addresses)
	pairs, handoff := it(fmt.Sprintf("%s:pairs:%d", key, os.Getpid())), it(key+":handoff")
	var held []lock
	answer := json.NewEncoder(os.Stdout)
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		words := strings.Fields(input.Text())
		var numbers [4]int64
		for i, word := range words[1:] {
			numbers[i], err = strconv.ParseInt(word, 10, 64)
			check(err)
		}
		var told any
		switch words[0] {
		case "pairs":
			told = runPairs(pairs, numbers[0])
		case "take":
			handoff.acquire()
			told = map[string]int64{"at": now()}
		case "give":
			at := now()
			handoff.release()
			told = map[string]int64{"at": at}
		case "crowd":
			told = runCrowd(it, int(numbers[0]), numbers[1], numbers[2], numbers[3])
		case "hold":
			if kind != "rueidislock" {
				check(fmt.Errorf("%s renews nothing", kind))
			}
			renewed := rueidisLocks(addresses[0], time.Duration(numbers[1])*time.Millisecond)
			for i := int64(0); i < numbers[0]; i++ {
				held = append(held, renewed(fmt.Sprintf("%s:held:%d", key, i)))
				held[i].acquire()
			}
			told = map[string]int64{"held": numbers[0]}
		default:
			check(fmt.Errorf("what is %s?", input.Text()))
		}
		check(answer.Encode(told))
	}
}
