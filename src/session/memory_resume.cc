#include "session/memory_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/guest_parts.h"
#include "base/hash.h"
#include "checkpoint/parity_file.h"
#include "comm/gather_text.h"
#include "device/host.h"
#include "train/move_parts.h"
#include "train/run_state.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResumeFolder = "resume";

// A message of several texts has the length of each before it.
void add_text(const std::string& text, std::string& message) {
  message += fmt::format("{:016x}{}", text.size(), text);
}

std::vector<std::string> split_texts(const std::string& message) {
  std::vector<std::string> texts;
  for (size_t begin = 0; begin + 16 <= message.size();) {
    const size_t size = std::strtoull(message.substr(begin, 16).c_str(), nullptr, 16);
    if (size > message.size() - begin - 16) break;
    texts.push_back(message.substr(begin + 16, size));
    begin += 16 + size;
  }
  return texts;
}

// What the first rank knows of the job.
struct JobFacts {
  int64_t job = 0;            // 0: it has not trained yet
  int64_t trained_epoch = 0;  // the newest epoch that has done a step
  int64_t step = 0;           // the last one that it has done
};

JobFacts facts_of_job(Group& ranks, const SessionOptions& options) {
  JobFacts facts;
  if (options.link != nullptr && options.order) {
    const JobPage& page = options.link->page();
    facts = {page.job, int64_t(page.trained_epoch), page.step};
  }
  ranks.broadcast({&facts, DType::I64, Shape{int64_t(sizeof facts / sizeof(int64_t))}}, 0);
  return facts;
}

// A part of an earlier epoch may be of a step that a later epoch has not reached again.
bool is_of_this_history(const HostsRecord& record, const JobFacts& facts) {
  return int64_t(record.epoch) >= facts.trained_epoch || record.step <= facts.step;
}

// The parity of several parts may lie in one folder.
std::string parity_of_part(int number, const std::string& file) {
  return fmt::format("of-{}-{}", number, file);
}

Status link_file(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) return damaged(fmt::format("{}: cannot link to {}: {}", from, to, error.message()));
  return Done{};
}

// The index and the attached files of a part, as one message; "" if one of them is damaged.
std::string bundle_of(const std::string& folder) {
  const Result<std::string> text = read_text_file(folder + "/index.json");
  if (!text.ok()) return "";
  const Result<CheckpointIndex> index = parse_index(*text);
  if (!index.ok()) return "";
  std::string bundle;
  add_text(*text, bundle);
  for (const auto& [name, stored] : index->attached) {
    const Result<std::string> content = read_text_file(folder + "/" + name);
    if (!content.ok() || hash64(*content) != stored.checksum) return "";
    add_text(*content, bundle);
  }
  return bundle;
}

}  // namespace

MemoryResume::MemoryResume(World& world, const SessionOptions& options, Engine& engine)
    : world_(world), options_(options), engine_(engine) {
  if (options.link == nullptr) return;  // nothing outlives these ranks
  ranks_ = world.group().split(0, world.rank(), "memory resume");
  places_ = gather_hosts(*ranks_, {host_name(), options.memory_folder, options.failure_domain});
  folder_ = options.memory_folder + "/" + kResumeFolder;
  const JobFacts facts = facts_of_job(*ranks_, options);
  if (facts.job == 0 || !places_.has_all) return;
  std::string own;
  if (is_keeper()) {
    std::vector<std::string> problems;
    std::vector<std::string> roots = guest_folders(options.memory_folder);
    roots.insert(roots.begin(), options.memory_folder);
    for (const std::string& root : roots) {
      for (const FoundPart& part : find_parts(root, uint64_t(facts.job), problems)) {
        if (!is_of_this_history(part.record, facts)) continue;
        add_text(part.folder + "\n" + print_hosts_record(part.record), own);
      }
    }
    for (const std::string& problem : problems) add_text("!" + problem, own);
  }
  take_records(gather_from_hosts(own));
}

void MemoryResume::tell(const std::string& message) const {
  for (RunObserver* observer : options_.observers) observer->on_message(message);
}

// Returns one text of every current host. Ranks wait as long as the slowest host makes progress.
std::vector<std::string> MemoryResume::gather_from_hosts(const std::string& text) {
  ranks_->monitored_barrier();
  const std::vector<std::string> texts = gather_text(*ranks_, is_keeper() ? text : "");
  std::vector<std::string> of_hosts;
  for (const int keeper : places_.keepers()) of_hosts.push_back(texts[size_t(keeper)]);
  return of_hosts;
}

Status MemoryResume::agree(const Status& own) {
  ranks_->monitored_barrier();
  for (const std::string& text : gather_text(*ranks_, own.ok() ? "" : own.error().message)) {
    if (!text.empty()) return damaged(text);
  }
  return Done{};
}

void MemoryResume::take_records(const std::vector<std::string>& texts) {
  for (size_t host = 0; host < texts.size(); ++host) {
    for (const std::string& text : split_texts(texts[host])) {
      if (text.starts_with('!')) {
        tell("skipping a damaged checkpoint: " + text.substr(1));
        continue;
      }
      const size_t line = text.find('\n');
      if (line == std::string::npos) continue;
      const Result<HostsRecord> record = parse_hosts_record(text.substr(line + 1));
      if (!record.ok()) continue;  // its host has checked it
      auto save = std::find_if(saves_.begin(), saves_.end(),
                               [&](const Save& other) { return other.record.is_of_save(*record); });
      if (save == saves_.end()) {
        saves_.push_back({*record, {}});
        save = saves_.end() - 1;
      }
      save->held.push_back({int(host), text.substr(0, line), record->own});
    }
  }
  std::stable_sort(saves_.begin(), saves_.end(), [](const Save& a, const Save& b) {
    return std::pair(a.record.step, a.record.epoch) < std::pair(b.record.step, b.record.epoch);
  });
}

int64_t MemoryResume::newest_step_before(int64_t step) const {
  int64_t newest = -1;
  for (const Save& save : saves_) {
    if (save.record.step < step) newest = std::max(newest, save.record.step);
  }
  return newest;
}

void MemoryResume::leave_out_after(int64_t step) {
  std::erase_if(saves_, [&](const Save& save) { return save.record.step > step; });
}

int64_t MemoryResume::newest_step() const {
  return saves_.empty() ? -1 : saves_.back().record.step;
}

// Every host reads what it has, all at the same time.
Result<std::vector<HeldPart>> MemoryResume::check_parts(const Save& save) {
  std::string own;
  std::vector<std::string> problems;
  for (const HeldFolder& held : save.held) {
    if (!is_keeper() || held.host != places_.own) continue;
    HostsRecord record = save.record;
    record.own = held.number;
    const Result<HeldPart> part = check_part({held.folder, record}, options_.host.num_cores,
                                             &world_.group().progress(), problems);
    if (!part.ok()) problems.push_back(part.error().message);
    add_text(print_held_part(part.ok() ? *part : HeldPart{}), own);
  }
  for (const std::string& problem : problems) add_text(problem, own);
  std::vector<std::vector<std::string>> texts;
  for (const std::string& message : gather_from_hosts(own)) texts.push_back(split_texts(message));
  std::vector<HeldPart> parts;
  std::vector<size_t> num_read(texts.size(), 0);
  for (const HeldFolder& held : save.held) {
    const std::vector<std::string>& of_host = texts[size_t(held.host)];
    size_t& number = num_read[size_t(held.host)];
    const std::string text = number < of_host.size() ? of_host[number] : "";
    ++number;
    TRIREME_TRY(part, parse_held_part(text, save.record));
    parts.push_back(std::move(part));
  }
  for (size_t host = 0; host < texts.size(); ++host) {
    for (size_t i = num_read[host]; i < texts[host].size(); ++i) {
      tell("skipping a damaged checkpoint: " + texts[host][i]);
    }
  }
  return parts;
}

// Makes the folder with the index and the attached files, which come from the first host that has
// them intact.
Result<CheckpointIndex> MemoryResume::share_index(const Save& save) {
  std::string own;
  for (const HeldFolder& held : save.held) {
    if (is_keeper() && held.host == places_.own && own.empty()) own = bundle_of(held.folder);
  }
  const std::vector<std::string> intact = gather_from_hosts(own.empty() ? "" : "1");
  const auto first = std::find(intact.begin(), intact.end(), "1");
  if (first == intact.end()) {
    return damaged(fmt::format("step {}: no host has an intact index", save.record.step));
  }
  const bool is_first = first - intact.begin() == places_.own;
  std::string bundle;
  for (const std::string& text : gather_from_hosts(is_first ? own : "")) bundle += text;
  const std::vector<std::string> texts = split_texts(bundle);
  if (texts.empty() || hash64(texts[0]) != save.record.index_checksum) {
    return damaged(fmt::format("step {}: its index has arrived damaged", save.record.step));
  }
  TRIREME_TRY(index, parse_index(texts[0]));
  if (texts.size() != 1 + index.attached.size()) {
    return damaged(fmt::format("step {}: a file is missing", save.record.step));
  }
  if (!is_keeper()) return index;
  std::error_code error;
  fs::remove_all(folder_, error);
  fs::create_directory(folder_, error);
  TRIREME_TRY_DONE(write_file_atomically(folder_ + "/index.json", texts[0]));
  size_t number = 1;
  for (const auto& [name, stored] : index.attached) {
    TRIREME_TRY_DONE(write_file_atomically(folder_ + "/" + name, texts[number++]));
  }
  return index;
}

// Adds the intact files of this host.
Status MemoryResume::make_folder(const Save& save, std::span<const HeldPart> parts,
                                 const CheckpointIndex& index) {
  const HostsRecord& record = save.record;
  for (size_t i = 0; i < parts.size(); ++i) {
    const HeldPart& part = parts[i];
    if (!is_keeper() || save.held[i].host != places_.own || part.host < 0) continue;
    const std::string& folder = save.held[i].folder;
    const int num_rows = record.group_of(part.host).num_parity;
    for (int lane = 0; lane < record.num_lanes(); ++lane) {
      const std::string file = record.shard_of(part.host, lane, index);
      if (!file.empty() && part.blocks[size_t(lane)]) {
        TRIREME_TRY_DONE(link_file(folder + "/" + file, folder_ + "/" + file));
      }
      for (int row = 0; row < num_rows; ++row) {
        if (!part.rows[size_t(lane * num_rows + row)]) continue;
        const std::string parity = parity_file_name(lane, row);
        TRIREME_TRY_DONE(
            link_file(folder + "/" + parity, folder_ + "/" + parity_of_part(part.host, parity)));
      }
    }
  }
  return Done{};
}

// The plan for the holders of parts becomes one for the current hosts on which they lie.
RebuildPlan MemoryResume::of_hosts(RebuildPlan plan, const Save& save,
                                   std::span<const HeldPart> parts) const {
  const auto host_of = [&](int holder) { return save.held[size_t(holder)].host; };
  for (PartMove& move : plan.moves) {
    const bool is_shard = plan.holder_of.contains(move.source);
    if (!is_shard) move.source = parity_of_part(parts[size_t(move.from)].host, move.source);
    move.from = host_of(move.from);
    move.to = host_of(move.to);
  }
  for (auto* shards : {&plan.rebuilt, &plan.holder_of}) {
    for (auto& [file, holder] : *shards) holder = host_of(holder);
  }
  return plan;
}

// The hosts' first ranks move the bytes. A target has the length of its shard, so that it can be
// opened whatever was fetched.
Status MemoryResume::move(const CheckpointIndex& index, std::span<const PartMove> moves) {
  Status own = Done{};
  if (is_keeper()) {
    own = move_parts(moves, {.ranks = *ranks_,
                             .rank_of = places_.keepers(),
                             .source_folder = folder_,
                             .target_folder = folder_,
                             .buffer = engine_.move_memory(),
                             .timeout_s = options_.config.run.comm_timeout_s,
                             .progress = &world_.group().progress()});
    for (const PartMove& move : moves) {
      if (move.to != places_.own || !own.ok()) continue;
      std::error_code error;
      fs::resize_file(folder_ + "/" + move.target,
                      uint64_t(index.contents.shards.at(move.target).bytes), error);
      if (error) own = damaged(folder_ + "/" + move.target + ": " + error.message());
    }
  }
  return agree(own);
}

Result<std::vector<NeededRanges>> MemoryResume::gather_needs(const CheckpointIndex& index,
                                                             const RebuildPlan& plan) {
  NeededRanges own = needed_ranges(index, restore_requests(engine_));
  std::erase_if(own,
                [&](const auto& entry) { return plan.holder_of.at(entry.first) == places_.own; });
  const std::vector<std::string> texts = gather_text(*ranks_, print_ranges(own));
  std::vector<NeededRanges> needs(places_.hosts.size());
  for (size_t host = 0; host < needs.size(); ++host) {
    for (const int rank : places_.hosts[host].ranks) {
      TRIREME_TRY(ranges, parse_ranges(texts[size_t(rank)], index));
      merge_ranges(needs[host], ranges);
    }
  }
  return needs;
}

Result<MemoryCheckpoint> MemoryResume::take_newest() {
  const Save save = std::move(saves_.back());
  saves_.pop_back();
  TRIREME_TRY(parts, check_parts(save));
  Result<CheckpointIndex> index = share_index(save);
  TRIREME_TRY_DONE(agree(index.ok() ? Status(Done{}) : index.error()));
  TRIREME_TRY(planned, plan_rebuild(save.record, *index, parts));
  TRIREME_TRY_DONE(agree(make_folder(save, parts, *index)));
  const RebuildPlan plan = of_hosts(std::move(planned), save, parts);
  TRIREME_TRY_DONE(move(*index, plan.moves));
  Status rebuilt = Done{};
  for (const auto& [file, host] : plan.rebuilt) {
    if (!is_keeper() || host != places_.own || !rebuilt.ok()) continue;
    rebuilt = check_shard(folder_ + "/" + file, file, *index, &world_.group().progress());
  }
  TRIREME_TRY_DONE(agree(rebuilt));
  TRIREME_TRY(needs, gather_needs(*index, plan));
  TRIREME_TRY_DONE(move(*index, fetch_moves(*index, plan.holder_of, needs)));
  return MemoryCheckpoint{.folder = folder_,
                          .name = options_.memory_folder + "/" + step_folder_name(save.record.step),
                          .is_rebuilt = !plan.rebuilt.empty()};
}

void MemoryResume::remove_folder() const {
  if (ranks_ == nullptr) return;
  std::error_code ignored;
  if (is_keeper()) fs::remove_all(folder_, ignored);
}

}  // namespace trireme
