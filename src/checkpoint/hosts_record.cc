#include "checkpoint/hosts_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/sealed_json.h"
#include "checkpoint/save.h"
#include "checkpoint/strict_json.h"

namespace trireme {
namespace {

using nlohmann::json;
using strict_json::FieldError;

constexpr std::string_view kHostsFormat = "trireme-hosts";
constexpr int64_t kMostHosts = 4096;
constexpr int64_t kMostRanks = 4096;

HostsRecord::Host parse_host(const json& object) {
  HostsRecord::Host host;
  host.name = strict_json::string_member(object, "name", "host");
  if (object.contains("domain")) {
    host.domain = strict_json::string_member(object, "domain", "host");
  }
  for (const int64_t rank :
       strict_json::counts(strict_json::member(object, "ranks", "host"), "ranks")) {
    if (rank >= kMostRanks) throw FieldError{fmt::format("ranks: {} is too large", rank)};
    host.ranks.push_back(int(rank));
  }
  if (host.ranks.empty()) throw FieldError{"host " + host.name + ": has no ranks"};
  return host;
}

std::vector<std::string> domains_of(const std::vector<HostsRecord::Host>& hosts) {
  std::vector<std::string> domains;
  for (const HostsRecord::Host& host : hosts) domains.push_back(host.domain);
  return domains;
}

int small_count(const json& object, const char* key, int64_t from, int64_t most) {
  const int64_t count = strict_json::count_member(object, key, "hosts.json");
  if (count < from || count > most) throw FieldError{fmt::format("{}: {}", key, count)};
  return int(count);
}

HostsRecord parse_checked(std::string_view text) {
  const json object = strict_json::parse(text, 4);
  const std::string where = "hosts.json";
  if (strict_json::string_member(object, "format", where) != kHostsFormat) {
    throw FieldError{"not a record of hosts"};
  }
  if (strict_json::count_member(object, "version", where) != 1) {
    throw FieldError{"another version of the format than 1"};
  }
  HostsRecord record;
  record.step = strict_json::count_member(object, "step", where);
  record.job = strict_json::hex_member(object, "job", where);
  record.epoch = strict_json::hex_member(object, "epoch", where);
  record.num_data = small_count(object, "num_data", 1, 255);
  record.num_parity = small_count(object, "num_parity", 0, 255 - record.num_data);
  record.index_checksum = strict_json::hex_member(object, "index_checksum", where);
  const json& hosts = strict_json::member(object, "hosts", where);
  if (!hosts.is_array() || hosts.empty() || int64_t(hosts.size()) > kMostHosts) {
    throw FieldError{"hosts: no list of at least one host"};
  }
  std::set<int> ranks;
  for (const json& host : hosts) {
    record.hosts.push_back(parse_host(host));
    for (const int rank : record.hosts.back().ranks) {
      if (!ranks.insert(rank).second)
        throw FieldError{fmt::format("rank {} is on two hosts", rank)};
    }
  }
  for (const ParityGroup& group : record.groups()) {
    if (group.hosts.size() > 255) throw FieldError{"a group of more than 255 hosts"};
  }
  record.own = small_count(object, "own", 0, int64_t(record.hosts.size()) - 1);
  return record;
}

}  // namespace

int HostsRecord::num_lanes() const {
  size_t most = 0;
  for (const Host& host : hosts) most = std::max(most, host.ranks.size());
  return int(most);
}

std::vector<ParityGroup> HostsRecord::groups() const {
  return parity_groups(domains_of(hosts), num_data, num_parity);
}

std::optional<TooLargeDomain> HostsRecord::too_large_domain() const {
  return trireme::too_large_domain(domains_of(hosts), groups());
}

ParityGroup HostsRecord::group_of(int host) const {
  for (ParityGroup& group : groups()) {
    if (std::find(group.hosts.begin(), group.hosts.end(), host) != group.hosts.end()) return group;
  }
  TRIREME_CHECK(false, "every host has a group");
  return {};
}

std::string HostsRecord::shard_of(int host, int lane, const CheckpointIndex& index) const {
  const std::vector<int>& ranks = hosts[size_t(host)].ranks;
  if (size_t(lane) >= ranks.size()) return "";
  const std::string file = shard_file_name(ranks[size_t(lane)], 0);
  return index.contents.shards.contains(file) ? file : "";
}

bool HostsRecord::is_of_save(const HostsRecord& other) const {
  HostsRecord same = other;
  same.own = own;
  return step == same.step && job == same.job && epoch == same.epoch && num_data == same.num_data &&
         num_parity == same.num_parity && index_checksum == same.index_checksum &&
         hosts == same.hosts;
}

std::string print_hosts_record(const HostsRecord& record) {
  json hosts = json::array();
  for (const HostsRecord::Host& host : record.hosts) {
    hosts.push_back({{"name", host.name}, {"ranks", host.ranks}});
    if (!host.domain.empty()) hosts.back()["domain"] = host.domain;
  }
  return seal_json(fmt::format(
      "{{\"format\":\"{}\",\"version\":1,\"step\":{},\"job\":\"{}\",\"epoch\":\"{}\","
      "\"own\":{},\"num_data\":{},\"num_parity\":{},\"index_checksum\":\"{}\",\n"
      "\"hosts\":{}}}",
      kHostsFormat, record.step, hex64(record.job), hex64(record.epoch), record.own,
      record.num_data, record.num_parity, hex64(record.index_checksum), json_text(hosts)));
}

Result<HostsRecord> parse_hosts_record(std::string_view text) {
  TRIREME_TRY_DONE(check_seal(text));
  try {
    return parse_checked(text);
  } catch (const FieldError& failure) {
    return damaged(failure.message);
  }
}

}  // namespace trireme
