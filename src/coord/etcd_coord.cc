#include "coord/etcd_coord.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bounded_json.h"
#include "base/json_text.h"
#include "coord/base64.h"
#include "coord/http_post.h"

namespace trireme {
namespace {

using EtcdJson = nlohmann::json;

constexpr int kGrpcNotFound = 5;

// etcd writes 64-bit numbers as strings, and leaves out those that are 0.
int64_t etcd_number(const EtcdJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Returns the end of the range of all keys with this prefix.
std::string end_of_prefix(std::string prefix) {
  prefix.back() = char(prefix.back() + 1);
  return prefix;
}

}  // namespace

Error EtcdCoord::strange(const std::string& path, const std::string& what) const {
  return damaged(
      fmt::format("http://{}{}: this is no answer of etcd 3.4 or later: {}", address_, path, what));
}

Result<EtcdJson> EtcdCoord::ask(const std::string& path, const EtcdJson& question,
                                Deadline deadline, bool* is_ended) const {
  TRIREME_TRY(answer, http_post(address_, path, json_text(question), deadline));
  Result<EtcdJson> json = parse_bounded_json(answer.body);
  if (!json.ok() || !json->is_object()) {
    return strange(path, json.ok() ? "no object" : json.error().message);
  }
  if (answer.status == 200) return json;
  const bool is_missing = json->value("code", EtcdJson(0)) == kGrpcNotFound;
  if (is_ended != nullptr && is_missing) {
    *is_ended = true;
    return EtcdJson::object();
  }
  return Error{ErrorKind::Runtime,
               fmt::format("http://{}{}: etcd has refused with status {}: {}", address_, path,
                           answer.status, json_problem(json->dump()))};
}

std::string EtcdCoord::encoded(const std::string& key) const { return base64_of(prefix_ + key); }

Result<CoordEntry> EtcdCoord::entry_of(const EtcdJson& kv) const {
  TRIREME_TRY(key, bytes_of_base64(kv.at("key").get_ref<const std::string&>()));
  TRIREME_TRY(value, bytes_of_base64(kv.value("value", std::string())));
  if (!key.starts_with(prefix_)) return damaged("a key of another job");
  return CoordEntry{key.substr(prefix_.size()), value, etcd_number(kv, "mod_revision"),
                    etcd_number(kv, "lease")};
}

Result<CoordEntry> EtcdCoord::get(const std::string& key, Deadline deadline) {
  constexpr const char* kPath = "/v3/kv/range";
  TRIREME_TRY(answer, ask(kPath, {{"key", encoded(key)}}, deadline));
  try {
    if (!answer.contains("kvs")) return CoordEntry{.key = key};
    return entry_of(answer.at("kvs").at(0));
  } catch (const EtcdJson::exception& failure) {
    return strange(kPath, json_problem(failure.what()));
  }
}

Result<std::vector<CoordEntry>> EtcdCoord::list(const std::string& prefix, Deadline deadline) {
  constexpr const char* kPath = "/v3/kv/range";
  const std::string all = prefix_ + prefix;
  TRIREME_TRY(answer,
              ask(kPath, {{"key", base64_of(all)}, {"range_end", base64_of(end_of_prefix(all))}},
                  deadline));
  std::vector<CoordEntry> entries;
  try {
    for (const EtcdJson& kv : answer.value("kvs", EtcdJson::array())) {
      TRIREME_TRY(entry, entry_of(kv));
      entries.push_back(std::move(entry));
    }
  } catch (const EtcdJson::exception& failure) {
    return strange(kPath, json_problem(failure.what()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const CoordEntry& a, const CoordEntry& b) { return a.key < b.key; });
  return entries;
}

Result<CoordSwap> EtcdCoord::compare_and_swap(const CoordWrite& write, Deadline deadline) {
  constexpr const char* kPath = "/v3/kv/txn";
  const std::string key = encoded(write.key);
  EtcdJson change;
  if (write.value) {
    change["requestPut"] = {
        {"key", key}, {"value", base64_of(*write.value)}, {"lease", std::to_string(write.lease)}};
  } else {
    change["requestDeleteRange"] = {{"key", key}};
  }
  const EtcdJson compare{{"key", key},
                         {"target", "MOD"},
                         {"result", "EQUAL"},
                         {"mod_revision", std::to_string(write.expected_version)}};
  const EtcdJson read{{"requestRange", {{"key", key}}}};
  TRIREME_TRY(answer, ask(kPath,
                          {{"compare", EtcdJson::array({compare})},
                           {"success", EtcdJson::array({change, read})},
                           {"failure", EtcdJson::array({read})}},
                          deadline));
  try {
    CoordSwap swap{.is_written = answer.value("succeeded", false), .entry = {.key = write.key}};
    const EtcdJson& now = answer.at("responses").back().at("response_range");
    if (now.contains("kvs")) {
      TRIREME_TRY(entry, entry_of(now.at("kvs").at(0)));
      swap.entry = std::move(entry);
    }
    return swap;
  } catch (const EtcdJson::exception& failure) {
    return strange(kPath, json_problem(failure.what()));
  }
}

Result<LeaseId> EtcdCoord::grant(double seconds, Deadline deadline) {
  constexpr const char* kPath = "/v3/lease/grant";
  const auto whole = int64_t(std::ceil(seconds));
  TRIREME_TRY(answer, ask(kPath, {{"TTL", std::to_string(whole)}, {"ID", "0"}}, deadline));
  try {
    const LeaseId lease = etcd_number(answer, "ID");
    if (lease > 0 && etcd_number(answer, "TTL") >= whole) return lease;
    return strange(kPath, "no lease of this length");
  } catch (const EtcdJson::exception& failure) {
    return strange(kPath, json_problem(failure.what()));
  }
}

Result<bool> EtcdCoord::keep_alive(LeaseId lease, Deadline deadline) {
  constexpr const char* kPath = "/v3/lease/keepalive";
  TRIREME_TRY(answer, ask(kPath, {{"ID", std::to_string(lease)}}, deadline));
  try {
    return etcd_number(answer.at("result"), "TTL") > 0;
  } catch (const EtcdJson::exception& failure) {
    return strange(kPath, json_problem(failure.what()));
  }
}

Status EtcdCoord::revoke(LeaseId lease, Deadline deadline) {
  bool is_ended = false;
  TRIREME_TRY(answer,
              ask("/v3/lease/revoke", {{"ID", std::to_string(lease)}}, deadline, &is_ended));
  static_cast<void>(answer);
  return Done{};
}

}  // namespace trireme
