#include "coord/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using RecordJson = nlohmann::ordered_json;

constexpr JsonLimits kRecordLimits{.depth = 8, .values = 1 << 20, .token_bytes = 1 << 16};

// Reads the keys of one object. The first key that is wrong becomes the error.
class KeyReader {
 public:
  KeyReader(const nlohmann::json& object, std::string place)
      : object_(object), place_(std::move(place)) {
    if (!object.is_object()) refuse("", "an object");
  }

  void read(const char* key, std::string& text) {
    if (const auto* value = find(key, "a string");
        value && check(value->is_string(), key, "a string")) {
      text = value->get<std::string>();
    }
  }
  template <typename Integer>
  void read(const char* key, Integer& number) {
    constexpr const char* kExpected = "an integer of at least 0";
    const auto* value = find(key, kExpected);
    if (value == nullptr || !check(value->is_number_integer(), key, kExpected)) return;
    const auto read = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}
                          ? int64_t{-1}
                          : value->get<int64_t>();
    if (check(read >= 0 && std::in_range<Integer>(read), key, kExpected)) number = Integer(read);
  }
  void read(const char* key, double& number) {
    constexpr const char* kExpected = "a number above 0";
    const auto* value = find(key, kExpected);
    if (value == nullptr || !check(value->is_number(), key, kExpected)) return;
    if (check(value->get<double>() > 0, key, kExpected)) number = value->get<double>();
  }
  const nlohmann::json* array(const char* key) {
    const auto* value = find(key, "an array");
    return value && check(value->is_array(), key, "an array") ? value : nullptr;
  }
  const nlohmann::json* object(const char* key) { return find(key, "an object"); }

  void join(const KeyReader& part) {
    if (!problem_) problem_ = part.problem_;
  }
  const std::optional<Error>& problem() const { return problem_; }

 private:
  const nlohmann::json* find(const char* key, const char* expected) {
    if (problem_) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    refuse(key, expected);
    return nullptr;
  }
  bool check(bool is_right, const char* key, const char* expected) {
    if (!is_right) refuse(key, expected);
    return is_right;
  }
  void refuse(const std::string& key, const char* expected) {
    if (problem_) return;
    problem_ = damaged(fmt::format(
        "{}{}: expected {}; stop the job, remove its keys from the Coord, and resume from a "
        "checkpoint",
        place_, key.empty() ? "" : "." + key, expected));
  }

  const nlohmann::json& object_;
  std::string place_;
  std::optional<Error> problem_;
};

RecordJson json_of(const SavedStep& saved) {
  return {{"epoch", saved.epoch}, {"step", saved.step}};
}

RecordJson json_of(const Membership& membership) {
  RecordJson members = RecordJson::array();
  for (const Member& member : membership.members) {
    members.push_back({{"agent", member.agent},
                       {"address", member.address},
                       {"lease", member.lease},
                       {"slots", member.slots},
                       {"first_rank", member.first_rank},
                       {"num_ranks", member.num_ranks}});
  }
  return {{"epoch", membership.epoch},
          {"leader", membership.leader},
          {"members", std::move(members)},
          {"layout", membership.layout},
          {"first_step", membership.first_step}};
}

void read_membership(KeyReader& from, Membership& membership) {
  const auto* object = from.object("formed");
  if (object == nullptr) return;
  KeyReader reader(*object, "record.formed");
  reader.read("epoch", membership.epoch);
  reader.read("leader", membership.leader);
  reader.read("layout", membership.layout);
  reader.read("first_step", membership.first_step);
  if (const auto* members = reader.array("members")) {
    for (const auto& item : *members) {
      KeyReader entry(item, fmt::format("record.formed.members[{}]", membership.members.size()));
      Member& member = membership.members.emplace_back();
      entry.read("agent", member.agent);
      entry.read("address", member.address);
      entry.read("lease", member.lease);
      entry.read("slots", member.slots);
      entry.read("first_rank", member.first_rank);
      entry.read("num_ranks", member.num_ranks);
      reader.join(entry);
    }
  }
  from.join(reader);
}

Error not_an_epoch(const MembershipRecord& record) {
  return damaged(fmt::format(
      "record.formed.epoch: {} is later than claimed_epoch {}; stop the job, remove its keys from "
      "the Coord, and resume from a checkpoint",
      record.formed.epoch, record.claimed_epoch));
}

}  // namespace

const Member* Membership::find(std::string_view agent) const {
  for (const Member& member : members) {
    if (member.agent == agent) return &member;
  }
  return nullptr;
}

std::string place_on_all_slots(std::vector<Member>& members) {
  int rank = 0;
  for (Member& member : members) {
    member.first_rank = rank;
    member.num_ranks = member.slots;
    rank += member.slots;
  }
  return fmt::format("{} ranks", rank);
}

std::string record_text(const MembershipRecord& record) {
  return json_text(RecordJson{{"lease_s", record.lease_s},
                              {"claimed_epoch", record.claimed_epoch},
                              {"claimed_by", record.claimed_by},
                              {"formed", json_of(record.formed)},
                              {"base", json_of(record.base)},
                              {"holders", record.holders},
                              {"left_out", record.left_out}});
}

Result<MembershipRecord> parse_record(std::string_view text) {
  TRIREME_TRY(json, parse_bounded_json(text, kRecordLimits));
  MembershipRecord record;
  KeyReader reader(json, "record");
  reader.read("lease_s", record.lease_s);
  reader.read("claimed_epoch", record.claimed_epoch);
  reader.read("claimed_by", record.claimed_by);
  read_membership(reader, record.formed);
  if (const auto* object = reader.object("base")) {
    KeyReader base(*object, "record.base");
    base.read("epoch", record.base.epoch);
    base.read("step", record.base.step);
    reader.join(base);
  }
  const std::pair<const char*, std::vector<std::string>*> lists[] = {
      {"holders", &record.holders}, {"left_out", &record.left_out}};
  for (const auto& [key, names] : lists) {
    const auto* list = reader.array(key);
    if (list == nullptr) break;
    for (const auto& name : *list) {
      if (!name.is_string()) return damaged(fmt::format("record.{}: expected strings", key));
      names->push_back(name.get<std::string>());
    }
  }
  if (reader.problem()) return *reader.problem();
  if (record.formed.epoch > record.claimed_epoch) return not_an_epoch(record);
  return record;
}

std::string card_text(const AgentCard& card) {
  return json_text(RecordJson{
      {"address", card.address}, {"slots", card.slots}, {"stopped_epoch", card.stopped_epoch}});
}

Result<AgentCard> parse_card(std::string_view text) {
  TRIREME_TRY(json, parse_bounded_json(text, kRecordLimits));
  AgentCard card;
  KeyReader reader(json, "agent");
  reader.read("address", card.address);
  reader.read("slots", card.slots);
  reader.read("stopped_epoch", card.stopped_epoch);
  if (reader.problem()) return *reader.problem();
  return card;
}

}  // namespace trireme
