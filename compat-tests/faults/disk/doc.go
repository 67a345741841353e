// Package disk is a file system whose disk fails as it is told: slow, hanging, or failing flushes,
// failing reads, and a power cut that loses what was not flushed.
//
// It is a FUSE file system over a folder. Whatever is written goes to the folder at once, and the
// bytes that it replaces are kept until the file is flushed; a power cut puts them back. So a
// process sees what a page cache would show it, a killed process loses nothing, and only Crash
// brings the disk to what a real one would hold: for files what was there at the last fsync, for
// names what was there at the last fsync of their directory. A failed fsync takes the file's
// unflushed bytes away at once, as Linux's file systems may (they mark the pages clean and drop
// them), so that a process that goes on as if nothing had happened loses data.
//
// The real disk below is never flushed: what is measured is the process, and the machine is not
// going to lose its power.
package disk
