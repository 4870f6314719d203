#include "raft/members.h"

#include "raft/encoding.h"

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
  std::string bytes;
  RecordEncoder encoder(bytes);
  for (const LogMember& member : members.servers) {
    encoder.u32(uint32_t(member.id));
    encoder.text(member.address);
  }
  return bytes;
}

Result<LogMembers> decode_members(std::string_view bytes) {
  LogMembers members;
  RecordDecoder decoder(bytes);
  while (decoder.is_ok() && !decoder.is_at_end()) {
    LogMember member;
    member.id = ServerId(decoder.u32());
    member.address = decoder.text();
    if (member.id < 1) return damaged("a list of servers has a wrong id");
    if (!members.servers.empty() && members.servers.back().id >= member.id) {
      return damaged("a list of servers is not sorted");
    }
    members.servers.push_back(std::move(member));
  }
  if (!decoder.is_ok()) return damaged("a list of servers is incomplete");
  return members;
}

}  // namespace trireme
