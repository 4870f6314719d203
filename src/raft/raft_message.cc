#include "raft/raft_message.h"

#include "raft/members.h"
#include "raft/packed_bytes.h"

namespace trireme {
namespace {

constexpr size_t kMostAddressBytes = 300;

Status check_entries(const RaftMessage& message) {
  int64_t index = message.index;
  int64_t term = message.log_term;
  for (const LogEntry& entry : message.entries) {
    if (entry.index != ++index) return damaged("entries of a message do not follow each other");
    if (entry.term < term || entry.term > message.term) {
      return damaged("an entry of a message has a wrong term");
    }
    term = entry.term;
    if (entry.kind == EntryKind::Members) TRIREME_TRY_DONE(decode_members(entry.bytes));
  }
  return Done{};
}

}  // namespace

std::string encode_message_head(const RaftMessage& message, size_t snapshot_bytes) {
  PackedWriter writer;
  writer.number<uint8_t>(uint8_t(message.kind));
  writer.number<uint8_t>(message.is_granted ? 1 : 0);
  writer.number<uint32_t>(uint32_t(message.from));
  writer.number<uint32_t>(uint32_t(message.to));
  writer.long_text(message.from_address);
  for (const int64_t value : {message.term, message.index, message.log_term, message.commit,
                              message.round, message.hint}) {
    writer.number<int64_t>(value);
  }
  writer.number<int64_t>(int64_t(message.entries.size()));
  for (const LogEntry& entry : message.entries) encode_entry(entry, writer);
  if (message.kind == RaftMessage::Kind::Snapshot) writer.number<int64_t>(int64_t(snapshot_bytes));
  return writer.take();
}

std::string encode_message(const RaftMessage& message) {
  if (message.kind != RaftMessage::Kind::Snapshot) return encode_message_head(message, 0);
  const std::string snapshot = encode_snapshot(*message.snapshot);
  return encode_message_head(message, snapshot.size()) + snapshot;
}

Result<RaftMessage> decode_message(std::string_view bytes) {
  PackedReader reader(bytes);
  RaftMessage message;
  const uint8_t kind = reader.number<uint8_t>();
  if (kind > uint8_t(RaftMessage::Kind::Snapshot)) return damaged("a message has an unknown kind");
  message.kind = RaftMessage::Kind(kind);
  message.is_granted = reader.number<uint8_t>() != 0;
  message.from = ServerId(reader.number<uint32_t>());
  message.to = ServerId(reader.number<uint32_t>());
  message.from_address = reader.long_text();
  if (message.from_address.size() > kMostAddressBytes) {
    return damaged("a message has a wrong address");
  }
  for (int64_t* value : {&message.term, &message.index, &message.log_term, &message.commit,
                         &message.round, &message.hint}) {
    *value = reader.number<int64_t>();
    if (*value < 0 || *value > kMostMessageNumber) return damaged("a message has a wrong number");
  }
  const int64_t num_entries = reader.number<int64_t>();
  for (int64_t i = 0; i < num_entries && !reader.has_failed(); ++i) {
    TRIREME_TRY(entry, decode_entry(reader));
    message.entries.push_back(std::move(entry));
  }
  if (message.kind == RaftMessage::Kind::Snapshot) {
    TRIREME_TRY(snapshot, parse_snapshot(reader.long_text(), "a message"));
    TRIREME_TRY_DONE(decode_members(snapshot.members));
    if (snapshot.index != message.index || snapshot.term > message.term) {
      return damaged("a message has a snapshot of another index or of a later term");
    }
    message.snapshot = std::make_shared<const LogSnapshot>(std::move(snapshot));
  }
  if (!reader.is_done()) return damaged("a message is incomplete or too long");
  TRIREME_TRY_DONE(check_entries(message));
  return message;
}

}  // namespace trireme
