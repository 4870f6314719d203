#include "watch/host_counters.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(HostCounters, NumbersOfProcAreFoundByTheirWholeName) {
  const char* events = "low 0\nhigh 3\nmax 12\noom 4\noom_kill 2\n";
  EXPECT_EQ(number_after(events, "oom_kill"), 2);
  EXPECT_EQ(number_after(events, "oom"), 4);
  EXPECT_EQ(number_after(events, "none"), 0);
  EXPECT_EQ(number_after("MemAvailable:   123 kB\n", "MemAvailable"), 123);
  EXPECT_EQ(number_after("", "x"), 0);
}

// Loopback loses nothing, and drops of received packets say nothing about a link.
TEST(HostCounters, CountErrorsOfAdapters) {
  const char* text =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs "
      "drop "
      "fifo colls carrier compressed\n"
      "    lo: 1 1 9 9 0 0 0 0 1 1 9 9 0 0 9 0\n"
      "  eth0: 1 1 2 50 0 0 0 0 1 1 3 4 0 0 5 0\n";
  EXPECT_EQ(network_errors_in(text), 2 + 3 + 4 + 5);
  EXPECT_EQ(network_errors_in(""), 0);
}

TEST(HostCounters, PressureIsAShare) {
  EXPECT_DOUBLE_EQ(some_pressure_in("some avg10=12.50 avg60=0.00 avg300=0.00 total=7\n"), 0.125);
  EXPECT_DOUBLE_EQ(some_pressure_in(""), 0.0);
}

TEST(HostCounters, OfThisHostGrow) {
  const HostCounters before = read_host_counters(), after = read_host_counters();
  EXPECT_GT(before.cpu_s, 0.0);
  EXPECT_GT(before.available_memory_bytes, 0);
  EXPECT_GE(after.cpu_s, before.cpu_s);
  EXPECT_GE(after.major_faults, before.major_faults);
  EXPECT_GE(after.oom_kills, before.oom_kills);
  const HostStatistics statistics = between(before, after);
  EXPECT_GE(statistics.stolen, 0.0);
  EXPECT_LE(statistics.stolen, 1.0);
}

}  // namespace
}  // namespace trireme
