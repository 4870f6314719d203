#include "raft/log_format.h"

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "raft/packed_bytes.h"

namespace trireme {
namespace {

constexpr uint32_t kSegmentMagic = 0x314C5254;   // "TRL1"
constexpr uint32_t kFrameMagic = 0x464C5254;     // "TRLF"
constexpr uint32_t kFrameEnd = 0x454C5254;       // "TRLE"
constexpr uint32_t kSnapshotMagic = 0x31535254;  // "TRS1"
constexpr size_t kSegmentHeadBytes = 4 + 8 + 8 + 8 + 4;
constexpr size_t kFrameHeadBytes = 4 + 8 + 4;
constexpr size_t kFrameTailBytes = 4 + 4;
constexpr size_t kSectorBytes = 512;  // a disk writes a sector wholly or not at all

enum class RecordKind : uint8_t { Vote, Entry };

Error damage(const std::string& path, size_t offset, const std::string& what) {
  return damaged(path + ": damaged at byte " + std::to_string(offset) + ": " + what +
                 ". If other servers have this log, remove this server from its members, and add "
                 "it again with an empty folder");
}

bool is_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

// True if the file was made longer but the last sectors of the frame at `offset` were not written.
// A frame ends with bytes that are not zero, so one wrong byte does not look like that.
bool has_unwritten_end(std::string_view file, size_t offset) {
  size_t sector = (file.size() - 1) / kSectorBytes * kSectorBytes;
  sector = std::max(sector, offset);
  return file.size() - sector >= 2 && is_zero(file.substr(sector));
}

// Puts the records of a frame after those of the frames before it. Returns what is wrong, or "".
std::string add_records(std::string_view body, Segment& segment) {
  PackedReader reader(body);
  while (!reader.has_failed() && !reader.is_done()) {
    const auto kind = RecordKind(reader.number<uint8_t>());
    if (kind == RecordKind::Vote) {
      segment.vote.term = reader.number<int64_t>();
      segment.vote.candidate = ServerId(reader.number<uint32_t>());
    } else if (kind == RecordKind::Entry) {
      Result<LogEntry> entry = decode_entry(reader);
      if (!entry) return entry.error().message;
      auto& entries = segment.entries;
      while (!entries.empty() && entries.back().index >= entry->index) entries.pop_back();
      if (!entries.empty() && entries.back().index + 1 != entry->index) {
        return "entry " + std::to_string(entries.back().index + 1) + " is missing";
      }
      entries.push_back(std::move(*entry));
    } else {
      return "a record has an unknown kind";
    }
  }
  return !reader.has_failed() ? "" : "a record is incomplete";
}

}  // namespace

void encode_entry(const LogEntry& entry, PackedWriter& writer) {
  writer.number<int64_t>(entry.index).number<int64_t>(entry.term);
  writer.number(uint8_t(entry.kind)).long_text(entry.bytes);
}

Result<LogEntry> decode_entry(PackedReader& reader) {
  LogEntry entry;
  entry.index = reader.number<int64_t>();
  entry.term = reader.number<int64_t>();
  const uint8_t kind = reader.number<uint8_t>();
  entry.kind = EntryKind(kind);
  entry.bytes = reader.long_text();
  const bool is_good = !reader.has_failed() && entry.index >= 1 && entry.term >= 0 &&
                       kind <= uint8_t(EntryKind::Members);
  if (!is_good) return damaged("an entry is malformed");
  return entry;
}

std::string segment_head(int64_t number, int64_t base_index, int64_t base_term) {
  PackedWriter head;
  head.number(kSegmentMagic).number(number).number(base_index).number(base_term);
  return head.number<uint32_t>(crc32c(head.bytes())).take();
}

std::string frame_of(const std::optional<LogVote>& vote, std::span<const LogEntry> entries) {
  PackedWriter records;
  if (vote) {
    records.number(uint8_t(RecordKind::Vote)).number<int64_t>(vote->term);
    records.number(uint32_t(vote->candidate));
  }
  for (const LogEntry& entry : entries) {
    records.number(uint8_t(RecordKind::Entry));
    encode_entry(entry, records);
  }
  PackedWriter frame;
  frame.number(kFrameMagic).number(int64_t(records.bytes().size()));
  frame.number<uint32_t>(crc32c(frame.bytes())).raw(records.bytes());
  return frame.number<uint32_t>(crc32c(records.bytes())).number(kFrameEnd).take();
}

Result<Segment> parse_segment(std::string_view bytes, int64_t number, const std::string& path) {
  // The head is written with the file, before the file gets its name, so it is never incomplete.
  PackedReader head(bytes.substr(0, kSegmentHeadBytes));
  const uint32_t magic = head.number<uint32_t>();
  const int64_t found_number = head.number<int64_t>();
  Segment segment;
  segment.base_index = head.number<int64_t>();
  segment.base_term = head.number<int64_t>();
  const uint32_t head_crc = head.number<uint32_t>();
  if (head.has_failed()) return damage(path, 0, "the head is incomplete");
  if (magic != kSegmentMagic || head_crc != crc32c(bytes.substr(0, kSegmentHeadBytes - 4))) {
    return damage(path, 0, "the head has a wrong checksum or is of another kind of file");
  }
  if (found_number != number) return damage(path, 0, "the file has another number than its name");
  size_t offset = kSegmentHeadBytes;
  while (true) {
    segment.whole_bytes = int64_t(offset);
    const std::string_view rest = bytes.substr(offset);
    if (rest.size() < kFrameHeadBytes || is_zero(rest)) return segment;
    PackedReader frame(rest);
    const uint32_t frame_magic = frame.number<uint32_t>();
    const int64_t body_bytes = frame.number<int64_t>();
    const uint32_t frame_crc = frame.number<uint32_t>();
    if (frame_magic != kFrameMagic || body_bytes < 0 || frame_crc != crc32c(rest.substr(0, 12))) {
      return damage(path, offset, "the head of a frame has a wrong checksum");
    }
    const size_t body_size = size_t(body_bytes);
    if (rest.size() - kFrameHeadBytes < body_size) return segment;
    if (rest.size() - kFrameHeadBytes - body_size < kFrameTailBytes) return segment;
    const std::string_view body = rest.substr(kFrameHeadBytes, body_size);
    PackedReader tail(rest.substr(kFrameHeadBytes + body_size, kFrameTailBytes));
    const bool is_whole =
        tail.number<uint32_t>() == crc32c(body) && tail.number<uint32_t>() == kFrameEnd;
    const size_t end = offset + kFrameHeadBytes + body_size + kFrameTailBytes;
    if (!is_whole && end == bytes.size() && has_unwritten_end(bytes, offset)) return segment;
    if (!is_whole) return damage(path, offset, "a frame has a wrong checksum");
    const std::string wrong = add_records(body, segment);
    if (!wrong.empty()) return damage(path, offset, wrong);
    offset = end;
  }
}

std::string encode_snapshot(const LogSnapshot& snapshot) {
  PackedWriter writer;
  writer.number(kSnapshotMagic).number<int64_t>(snapshot.index).number<int64_t>(snapshot.term);
  writer.long_text(snapshot.members).long_text(snapshot.state);
  return writer.number<uint32_t>(crc32c(writer.bytes())).take();
}

Result<LogSnapshot> parse_snapshot(std::string_view bytes, const std::string& path) {
  if (bytes.size() < 8) return damage(path, 0, "the snapshot is incomplete");
  PackedReader tail(bytes.substr(bytes.size() - 4));
  bytes.remove_suffix(4);
  if (tail.number<uint32_t>() != crc32c(bytes))
    return damage(path, 0, "the snapshot has a wrong checksum");
  PackedReader reader(bytes);
  const uint32_t magic = reader.number<uint32_t>();
  LogSnapshot snapshot;
  snapshot.index = reader.number<int64_t>();
  snapshot.term = reader.number<int64_t>();
  snapshot.members = reader.long_text();
  snapshot.state = reader.long_text();
  const bool is_good =
      magic == kSnapshotMagic && reader.is_done() && snapshot.index >= 0 && snapshot.term >= 0;
  if (!is_good) return damage(path, 0, "this is no snapshot of a log");
  return snapshot;
}

Result<LogContents> join_contents(LogSnapshot snapshot, Segment segment, const std::string& path) {
  if (snapshot.index < segment.base_index) {
    return damaged(path + ": follows a snapshot of entry " + std::to_string(segment.base_index) +
                   ", but the snapshot in its folder is older or missing");
  }
  std::vector<LogEntry>& entries = segment.entries;
  if (!entries.empty() && entries.front().index > snapshot.index + 1) {
    return damaged(path + ": entry " + std::to_string(snapshot.index + 1) + " is missing");
  }
  const auto same = std::find_if(entries.begin(), entries.end(), [&](const LogEntry& entry) {
    return entry.index >= snapshot.index;
  });
  // The snapshot of a leader may have been stored just before a crash, over entries of a leader
  // that was never followed by a majority.
  const bool contradicts =
      same != entries.end() && same->index == snapshot.index && same->term != snapshot.term;
  if (contradicts) entries.clear();
  std::erase_if(entries, [&](const LogEntry& entry) { return entry.index <= snapshot.index; });
  return LogContents{std::move(snapshot), segment.vote, std::move(entries)};
}

}  // namespace trireme
