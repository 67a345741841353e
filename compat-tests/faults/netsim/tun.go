package netsim

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// mtu is large, so that few packets are needed.
const mtu = 9000

// openTUN makes a device in the current namespace whose packets can be read and written here.
func openTUN(name string, addr netip.Prefix) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err == nil {
		err = configure(name, addr)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil // after TUNSETIFF: before it the poller cannot watch it
}

// configure gives a device its address and brings it up.
func configure(name string, addr netip.Prefix) error {
	ip := addr.Addr().As4()
	if err := ioctl(name, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip[:]) }); err != nil {
		return err
	}
	mask := ^uint32(0) << (32 - addr.Bits())
	m := []byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)}
	if err := ioctl(name, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(m) }); err != nil {
		return err
	}
	if err := ioctl(name, unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil }); err != nil {
		return err
	}
	return up(name)
}

func up(name string) error {
	return ioctl(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil })
}

func ioctl(name string, request uint, set func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = set(r)
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, request, r)
	}
	return errors.Join(err, unix.Close(fd))
}
