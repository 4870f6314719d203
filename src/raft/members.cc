#include "raft/members.h"

#include "raft/packed_bytes.h"

namespace trireme {

std::string LogMembers::address_of(ServerId id) const {
  for (const LogMember& member : servers) {
    if (member.id == id) return member.address;
  }
  return "";
}

bool LogMembers::is_one_step_from(const LogMembers& other) const {
  int num_changes = 0;
  for (const LogMember& member : servers) {
    if (!other.has(member.id) || other.address_of(member.id) != member.address) ++num_changes;
  }
  for (const LogMember& member : other.servers) {
    if (!has(member.id)) ++num_changes;
  }
  return num_changes <= 1;
}

std::string encode_members(const LogMembers& members) {
  PackedWriter writer;
  for (const LogMember& member : members.servers) {
    writer.number<uint32_t>(uint32_t(member.id));
    writer.long_text(member.address);
  }
  return writer.take();
}

Result<LogMembers> decode_members(std::string_view bytes) {
  LogMembers members;
  PackedReader reader(bytes);
  while (!reader.has_failed() && !reader.is_done()) {
    LogMember member;
    member.id = ServerId(reader.number<uint32_t>());
    member.address = reader.long_text();
    if (member.id < 1) return damaged("a list of servers has a wrong id");
    if (!members.servers.empty() && members.servers.back().id >= member.id) {
      return damaged("a list of servers is not sorted");
    }
    members.servers.push_back(std::move(member));
  }
  if (reader.has_failed()) return damaged("a list of servers is incomplete");
  return members;
}

}  // namespace trireme
