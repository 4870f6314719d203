#include "raft/raft_message.h"

#include "raft/encoding.h"
#include "raft/members.h"

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
  std::string bytes;
  RecordEncoder encoder(bytes);
  encoder.byte(uint8_t(message.kind));
  encoder.byte(message.is_granted ? 1 : 0);
  encoder.u32(uint32_t(message.from));
  encoder.u32(uint32_t(message.to));
  encoder.text(message.from_address);
  for (const int64_t value : {message.term, message.index, message.log_term, message.commit,
                              message.round, message.hint}) {
    encoder.i64(value);
  }
  encoder.i64(int64_t(message.entries.size()));
  for (const LogEntry& entry : message.entries) encode_entry(entry, bytes);
  if (message.kind == RaftMessage::Kind::Snapshot) encoder.i64(int64_t(snapshot_bytes));
  return bytes;
}

std::string encode_message(const RaftMessage& message) {
  if (message.kind != RaftMessage::Kind::Snapshot) return encode_message_head(message, 0);
  const std::string snapshot = encode_snapshot(*message.snapshot);
  return encode_message_head(message, snapshot.size()) + snapshot;
}

Result<RaftMessage> decode_message(std::string_view bytes) {
  RecordDecoder decoder(bytes);
  RaftMessage message;
  const uint8_t kind = decoder.byte();
  if (kind > uint8_t(RaftMessage::Kind::Snapshot)) return damaged("a message has an unknown kind");
  message.kind = RaftMessage::Kind(kind);
  message.is_granted = decoder.byte() != 0;
  message.from = ServerId(decoder.u32());
  message.to = ServerId(decoder.u32());
  message.from_address = decoder.text();
  if (message.from_address.size() > kMostAddressBytes) {
    return damaged("a message has a wrong address");
  }
  for (int64_t* value : {&message.term, &message.index, &message.log_term, &message.commit,
                         &message.round, &message.hint}) {
    *value = decoder.i64();
    if (*value < 0 || *value > kMostMessageNumber) return damaged("a message has a wrong number");
  }
  const int64_t num_entries = decoder.i64();
  for (int64_t i = 0; i < num_entries && decoder.is_ok(); ++i) {
    TRIREME_TRY(entry, decode_entry(decoder));
    message.entries.push_back(std::move(entry));
  }
  if (message.kind == RaftMessage::Kind::Snapshot) {
    TRIREME_TRY(snapshot, parse_snapshot(decoder.text(), "a message"));
    TRIREME_TRY_DONE(decode_members(snapshot.members));
    if (snapshot.index != message.index || snapshot.term > message.term) {
      return damaged("a message has a snapshot of another index or of a later term");
    }
    message.snapshot = std::make_shared<const LogSnapshot>(std::move(snapshot));
  }
  if (!decoder.is_at_end()) return damaged("a message is incomplete or too long");
  TRIREME_TRY_DONE(check_entries(message));
  return message;
}

}  // namespace trireme
