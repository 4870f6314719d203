// `trireme store create`, `status`, `scrub`, `repair`, `drain` and `replace-metadata`.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/absolute_folder.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/open_store.h"
#include "cli/store_command.h"
#include "cli/upkeep_line.h"
#include "store/mount_point.h"
#include "store/repair.h"
#include "store/shared_store.h"
#include "store/store_file.h"
#include "store/store_status.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

Json json_of(const UpkeepProgress& progress) {
  return {{"work", text_of(progress.kind)},        {"blocks", progress.done},
          {"all_blocks", progress.total},          {"bytes", progress.bytes},
          {"seconds", double(progress.ms) * 1e-3}, {"bytes_per_s", bytes_per_s(progress)}};
}

Json json_of(const StoreHealth& health) {
  Json servers = Json::array();
  for (const ServerHealth& server : health.servers) {
    servers.push_back({{"server", server.record.name},
                       {"address", server.record.address},
                       {"domain", server.record.domain},
                       {"state", text_of(server.record.state)},
                       {"incarnation", server.record.incarnation},
                       {"capacity_bytes", server.record.capacity_bytes},
                       {"chunks", server.num_chunks},
                       {"bytes", server.bytes},
                       {"problem", server.why_unusable},
                       {"metadata_problem", server.metadata_problem}});
  }
  Json json = {{"store", health.overview.facts.name},
               {"code", text_of(health.overview.facts.code)},
               {"health", word_of(health)},
               {"files", health.overview.num_files},
               {"bytes", health.overview.file_bytes},
               {"stored_bytes", health.stored_bytes},
               {"blocks", health.overview.num_blocks},
               {"blocks_lacking", health.blocks_lacking},
               {"bytes_at_risk", health.bytes_at_risk},
               {"bytes_lost", health.bytes_lost},
               {"chunks_to_repair", health.chunks_to_repair},
               {"lost_files", health.lost_files},
               {"servers", servers}};
  if (health.upkeep.kind != UpkeepKind::None) json["upkeep"] = json_of(health.upkeep);
  return json;
}

std::string text_of(const StoreHealth& health) {
  const Overview& overview = health.overview;
  std::string text = fmt::format(
      "{} ({}): {}\n{} files of {} in {} blocks, {} on disks\n{} at risk, {} lost, {} chunks to "
      "repair\n",
      overview.facts.name, text_of(overview.facts.code), word_of(health), overview.num_files,
      format_bytes(int64_t(overview.file_bytes)), overview.num_blocks,
      format_bytes(health.stored_bytes), format_bytes(health.bytes_at_risk),
      format_bytes(health.bytes_lost), health.chunks_to_repair);
  for (const ServerHealth& server : health.servers) {
    text += fmt::format("  {:<5} {:<9} {:>8} chunks {:>10}  {}\n", server.record.name,
                        text_of(server.record.state), server.num_chunks, format_bytes(server.bytes),
                        server.why_unusable.empty() ? server.record.address : server.why_unusable);
  }
  for (const ServerHealth& server : health.servers) {
    if (!server.metadata_problem.empty()) text += "  metadata  " + server.metadata_problem + "\n";
  }
  if (health.upkeep.kind != UpkeepKind::None) {
    text += fmt::format("  now   {}\n", fmt::join(parts_of(health.upkeep), ", "));
  }
  for (const std::string& file : health.lost_files) text += "  lost  " + file + "\n";
  return text;
}

Json json_of(const RepairTotals& totals) {
  return {{"repaired", totals.num_repaired},
          {"repaired_bytes", totals.bytes},
          {"waiting", totals.num_waiting},
          {"lost", totals.lost}};
}

Result<int> exit_code_of(const RepairTotals& totals) {
  if (totals.lost.empty()) return 0;
  return damaged(
      fmt::format("{} blocks cannot be recovered: {}", totals.lost.size(), totals.lost.front()));
}

}  // namespace

Result<int> run_store_create(const StoreCreateOptions& options, CommandIo& io) {
  TRIREME_TRY_DONE(check_store_name(options.name));
  TRIREME_TRY(code, parse_store_code(options.code));
  TRIREME_TRY(folder, stores_folder(options.at, io));
  StoreFile file{.id = drawn_number(), .name = options.name, .code = code};
  for (const std::string& dir : split_at_commas(options.dirs)) {
    file.dirs.push_back(absolute_folder(dir));
  }
  const std::vector<std::string> servers = split_at_commas(options.servers);
  if (!servers.empty() && !file.dirs.empty()) return usage("give --dirs or --servers, not both");
  const size_t num_servers = servers.size() + file.dirs.size();
  const std::vector<std::string> domains = split_at_commas(options.domains);
  if (!domains.empty() && domains.size() != num_servers) {
    return usage(fmt::format(
        "--domains names {} failure domains for {} folders or servers; name one for each",
        domains.size(), num_servers));
  }
  const std::string path = store_file_path(folder, file.name);
  if (fs::exists(path)) {
    return usage(path + ": a store of this name exists; take another name or another --at");
  }
  const StoreOptions writing{.access = StoreAccess::Write, .secret = io.launch.secret};
  if (servers.empty()) {
    TRIREME_TRY_DONE(Store::create(file, domains, writing));
  } else {
    TRIREME_TRY_DONE(create_shared_store(file, servers, domains, writing));
  }
  for (const std::string& dir : file.dirs) file.mounts.push_back(mount_point_of(dir));
  TRIREME_TRY_DONE(make_folders_of(path));
  TRIREME_TRY_DONE(write_file_atomically(path, text_of(file)));
  if (options.json) {
    print_json({{"store", file.name}, {"code", text_of(code)}, {"file", path}}, io);
  } else {
    io.out << fmt::format("store://{} with the code {} in {} {}; {} says where it is\n", file.name,
                          text_of(code), num_servers, servers.empty() ? "folders" : "servers",
                          path);
  }
  return 0;
}

Result<int> run_store_status(const StoreUrlOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.url, options.place, {.access = StoreAccess::Read}, io));
  TRIREME_TRY(health, health_of(*open.store));
  if (options.json) {
    print_json(json_of(health), io);
  } else {
    io.out << text_of(health);
  }
  return 0;
}

Result<int> run_store_scrub(const StoreScrubOptions& options, CommandIo& io) {
  TRIREME_TRY(
      open, open_store(options.url, options.place,
                       {.access = StoreAccess::Maintain, .takes_new_disks = options.new_disk}, io));
  UpkeepLine line(io);
  TRIREME_TRY(totals, scrub_store(*open.store, line.on_progress()));
  line.finish();
  if (options.json) {
    print_json({{"chunks", totals.num_chunks},
                {"damaged", totals.num_damaged},
                {"missing", totals.num_missing},
                {"unreadable", totals.num_unreadable},
                {"orphans", totals.num_orphans},
                {"mended_metadata", totals.num_mended_metadata},
                {"repair", json_of(totals.repaired)}},
               io);
  } else {
    io.out << fmt::format(
        "{} chunks: {} damaged, {} missing, {} on disks that do not answer; {} repaired, {} wait "
        "for a disk; {} orphans removed; {} copies of the metadata written again\n",
        totals.num_chunks, totals.num_damaged, totals.num_missing, totals.num_unreadable,
        totals.repaired.num_repaired, totals.repaired.num_waiting, totals.num_orphans,
        totals.num_mended_metadata);
  }
  return exit_code_of(totals.repaired);
}

Result<int> run_store_repair(const StoreUrlOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.url, options.place, {.access = StoreAccess::Maintain}, io));
  UpkeepLine line(io);
  TRIREME_TRY(totals, repair(*open.store, line.on_progress()));
  line.finish();
  TRIREME_TRY_DONE(open.store->collect_garbage());
  if (options.json) {
    print_json(json_of(totals), io);
  } else {
    io.out << fmt::format("{} chunks of {} repaired, {} wait for a disk\n", totals.num_repaired,
                          format_bytes(totals.bytes), totals.num_waiting);
  }
  return exit_code_of(totals);
}

Result<int> run_store_drain(const StoreDrainOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.url, options.place, {.access = StoreAccess::Maintain}, io));
  if (options.is_cancelled) {
    TRIREME_TRY_DONE(cancel_drain(*open.store, options.server));
    if (options.json) print_json({{"server", options.server}, {"state", "active"}}, io);
    if (!options.json) io.out << fmt::format("{} takes new chunks again\n", options.server);
    return 0;
  }
  UpkeepLine line(io);
  TRIREME_TRY(totals, drain_server(*open.store, options.server, line.on_progress()));
  line.finish();
  if (options.json) {
    print_json(json_of(totals), io);
  } else {
    io.out << fmt::format("{} is drained: {} chunks of {} are on other servers\n", options.server,
                          totals.num_repaired, format_bytes(totals.bytes));
  }
  return 0;
}

Result<int> run_store_replace_metadata(const StoreReplaceOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.url, options.place, {.access = StoreAccess::Maintain}, io));
  TRIREME_TRY(replaced, open.store->replace_log_server(options.old, options.fresh));
  StoreFile file = open.store->file();
  file.servers.clear();
  for (const LogServer& server : replaced.servers) file.servers.push_back(server.address);
  if (options.place.join.empty()) {
    TRIREME_TRY(folder, stores_folder(options.place.at, io));
    const std::string path = store_file_path(folder, file.name);
    TRIREME_TRY_DONE(write_file_atomically(path, text_of(file)));
  }
  if (options.json) {
    print_json({{"servers", file.servers}, {"not_told", replaced.not_told}}, io);
    return 0;
  }
  io.out << fmt::format("the metadata are kept by {}\n", fmt::join(file.servers, ", "));
  if (!replaced.not_told.empty()) {
    io.out << fmt::format(
        "{} did not answer; when they run again, repeat this command, so that they learn the new "
        "servers\n",
        fmt::join(replaced.not_told, ", "));
  }
  return 0;
}

}  // namespace trireme
