#include "raft/log_format.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "raft/members.h"

namespace trireme {
namespace {

LogEntry entry(int64_t index, int64_t term, const std::string& bytes) {
  return {.index = index, .term = term, .kind = EntryKind::Command, .bytes = bytes};
}

std::string frame(std::vector<LogEntry> entries, std::optional<LogVote> vote = {}) {
  return frame_of(vote, entries);
}

// A head, and frames with a vote, several entries, a long one, and entries that replace others.
struct Written {
  std::string bytes;
  std::vector<size_t> ends;  // of the head and of each frame
};
Written written() {
  Written log;
  const auto add = [&](const std::string& more) {
    log.bytes += more;
    log.ends.push_back(log.bytes.size());
  };
  add(segment_head(3, 10, 1));
  add(frame({entry(11, 1, "a"), entry(12, 1, "")}, LogVote{2, 1}));
  add(frame({}, LogVote{3, 2}));
  add(frame({entry(13, 3, std::string(700, '\0'))}));
  add(frame({entry(12, 4, "b"), entry(13, 4, "c")}));
  return log;
}

TEST(LogFormat, EntriesOfALaterFrameReplaceThoseOfTheSameAndHigherIndex) {
  const Result<Segment> segment = parse_segment(written().bytes, 3, "log-3");
  ASSERT_TRUE(segment.ok()) << segment.error().message;
  EXPECT_EQ(segment->base_index, 10);
  EXPECT_EQ(segment->vote, (LogVote{3, 2}));
  const std::vector<LogEntry> expected = {entry(11, 1, "a"), entry(12, 4, "b"), entry(13, 4, "c")};
  EXPECT_EQ(segment->entries, expected);
}

TEST(LogFormat, EveryCutLosesTheFrameThatWasCutAndNoOther) {
  const Written log = written();
  for (size_t size = log.ends[0]; size <= log.bytes.size(); ++size) {
    size_t whole = 0;
    for (const size_t end : log.ends) whole = end <= size ? end : whole;
    const std::string cut = log.bytes.substr(0, size);
    const Result<Segment> segment = parse_segment(cut, 3, "log-3");
    ASSERT_TRUE(segment.ok()) << size << ": " << segment.error().message;
    EXPECT_EQ(segment->whole_bytes, int64_t(whole)) << size;
  }
  EXPECT_FALSE(parse_segment(log.bytes.substr(0, log.ends[0] - 1), 3, "log-3").ok());
}

TEST(LogFormat, LastFrameWhoseLastSectorsWereNotWrittenIsNoDamage) {
  const std::string before = written().bytes;
  const std::string after = before + frame({entry(14, 4, std::string(1500, 'x'))});
  for (size_t sector = 512; sector < after.size(); sector += 512) {
    if (sector < before.size()) continue;
    const std::string unwritten =
        after.substr(0, sector) + std::string(after.size() - sector, '\0');
    const Result<Segment> segment = parse_segment(unwritten, 3, "log-3");
    ASSERT_TRUE(segment.ok()) << segment.error().message;
    EXPECT_EQ(segment->whole_bytes, int64_t(before.size()));
  }
}

TEST(LogFormat, EveryWrongByteIsDamageWithItsOffset) {
  const Written log = written();
  for (size_t i = 0; i < log.bytes.size(); ++i) {
    for (const int wrong : {0, 0xFF, int(uint8_t(log.bytes[i])) ^ (1 << (i % 8))}) {
      std::string bytes = log.bytes;
      bytes[i] = char(wrong);
      if (bytes == log.bytes) continue;
      const Result<Segment> segment = parse_segment(bytes, 3, "log-3");
      ASSERT_FALSE(segment.ok()) << "byte " << i << " became " << wrong;
      EXPECT_EQ(segment.error().kind, ErrorKind::Damaged);
      size_t begin = 0;
      for (const size_t end : log.ends) begin = end <= i ? end : begin;
      const std::string place = "log-3: damaged at byte " + std::to_string(begin) + ":";
      EXPECT_EQ(segment.error().message.substr(0, place.size()), place);
    }
  }
}

TEST(LogFormat, SnapshotComesBackAndEveryWrongByteOrCutOfItIsDamage) {
  const std::string bytes = encode_snapshot({.index = 5, .term = 2, .members = "m", .state = "s"});
  const Result<LogSnapshot> snapshot = parse_snapshot(bytes, "snapshot");
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(encode_snapshot(*snapshot), bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = char(bad[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(parse_snapshot(bad, "snapshot").ok()) << i;
    EXPECT_FALSE(parse_snapshot(bytes.substr(0, i), "snapshot").ok()) << i;
  }
}

TEST(LogFormat, SnapshotReplacesWhatItHasAndWhatItContradicts) {
  const auto join = [](int64_t index, int64_t term) {
    Segment segment{.base_index = 1, .base_term = 1};
    segment.entries = {entry(2, 1, "b"), entry(3, 1, "c"), entry(4, 1, "d")};
    return join_contents({.index = index, .term = term}, std::move(segment), "log-1");
  };
  EXPECT_EQ(join(1, 1)->entries.size(), 3u);
  EXPECT_EQ(join(3, 1)->entries.size(), 1u);
  EXPECT_EQ(join(3, 2)->entries.size(), 0u);
  EXPECT_EQ(join(9, 2)->entries.size(), 0u);
  EXPECT_FALSE(join(0, 0).ok());  // the segment needs a snapshot of entry 1
}

// These bytes are those of the layouts in docs/raft.md, with checksums that were computed
// elsewhere.
TEST(LogFormat, HasTheBytesOfItsDescription) {
  const auto hex = [](const std::string& bytes) {
    std::string digits;
    for (const char c : bytes) digits += hex64(uint8_t(c)).substr(14);
    return digits;
  };
  EXPECT_EQ(
      hex(frame({entry(5, 3, "command")}, LogVote{3, 2})),
      "54524c462e0000000000000029e962d000030000000000000002000000010500000000000000030000000000"
      "0000000700000000000000636f6d6d616e64fdcf4b9254524c45");
  EXPECT_EQ(hex(segment_head(4, 2, 1)),
            "54524c310400000000000000020000000000000001000000000000004fb19b2f");
  EXPECT_EQ(
      hex(encode_snapshot({.index = 4, .term = 2, .members = "m", .state = "state"})),
      "545253310400000000000000020000000000000001000000000000006d05000000000000007374617465d4fc"
      "737e");
  EXPECT_EQ(hex(encode_members({{{1, "a:1"}, {7, "b:2"}}})),
            "010000000300000000000000613a31070000000300000000000000623a32");
}

}  // namespace
}  // namespace trireme
