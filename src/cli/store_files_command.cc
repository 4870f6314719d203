// `trireme store put`, `get`, `ls`, `stat` and `rm`.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/files_to_put.h"
#include "cli/open_store.h"
#include "cli/store_command.h"
#include "store/get_file.h"
#include "store/put_files.h"
#include "store/remove_files.h"
#include "store/repair.h"

namespace trireme {

void print_json(const nlohmann::ordered_json& json, CommandIo& io) {
  io.out << lenient_json_text(json, 2) << "\n";
}

namespace {

using Json = nlohmann::ordered_json;

// Repairs the chunks that a reader has found damaged or missing, and returns how many. If another
// process writes to the store, it repairs nothing; scrub does it later.
int64_t repair_losses(const StoreCopyOptions& options, const std::vector<Move>& losses,
                      const CommandIo& io) {
  Result<OpenStore> open =
      open_store(options.from, options.place, {.access = StoreAccess::Write}, io);
  if (!open.ok() || !note_losses(*open->store, losses).ok()) return 0;
  if (open->store->is_shared()) return 0;  // a command that maintains the store may be running
  const Result<RepairTotals> totals = repair(*open->store);
  return totals.ok() ? totals->num_repaired : 0;
}

// A scrub cannot help while fewer servers take chunks than a block has.
std::string how_to_repair(Store& store, const std::string& name) {
  const Result<Overview> overview = store.overview();
  std::string left_out;
  int num_writable = 0;
  for (int server = 0; overview.ok() && server < store.num_servers(); ++server) {
    const ServerRecord& record = overview->servers[size_t(server)];
    const bool is_active = record.state == ServerState::Active;
    if (is_active && store.target(server) != nullptr) {
      ++num_writable;
      continue;
    }
    left_out += fmt::format("{}{} is {}", left_out.empty() ? "" : ", ", record.name,
                            is_active ? "not there" : text_of(record.state));
  }
  if (!overview.ok() || num_writable >= store.code().num_chunks()) {
    return "trireme store scrub " + name;
  }
  return fmt::format(
      "{} servers take chunks, and a block has {} ({}); bring a server back, or take it back with "
      "trireme store drain --cancel SERVER {}",
      num_writable, store.code().num_chunks(), left_out, name);
}

void add(const GetTotals& got, GetTotals& totals) {
  totals.bytes += got.bytes;
  totals.decoded_blocks += got.decoded_blocks;
  totals.losses.insert(totals.losses.end(), got.losses.begin(), got.losses.end());
}

// Returns the file of this name, or the files of the folder.
Result<std::vector<WrittenFile>> files_to_remove(Store& store, const StoreUrl& url,
                                                 bool is_recursive) {
  if (url.path.empty()) {
    return usage(
        fmt::format("store://{}: names a whole store; name a file or a folder in it", url.store));
  }
  TRIREME_TRY(files, store.files(url.path));
  const bool is_folder = !files.empty() && files.front().path != url.path;
  if (is_folder && !is_recursive) {
    return usage(
        fmt::format("store://{0}/{1}: a folder of {2} files; remove all of them with: "
                    "trireme store rm --recursive store://{0}/{1}",
                    url.store, url.path, files.size()));
  }
  if (files.empty()) {  // the error says that it is missing
    TRIREME_TRY(answer, store.ask({.kind = QuestionKind::File, .text = url.path}));
    return answer.files;
  }
  return files;
}

}  // namespace

Result<int> run_store_put(const StoreCopyOptions& options, CommandIo& io) {
  TRIREME_TRY(url, parse_store_url(options.to));
  TRIREME_TRY(files, files_to_put(options.from, url));
  TRIREME_TRY(open, open_store(options.to, options.place, {.access = StoreAccess::Write}, io));
  const int64_t begin_ns = monotonic_ns();
  TRIREME_TRY(totals, put_files(*open.store, files));
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  if (options.json) {
    print_json({{"files", totals.num_files},
                {"bytes", totals.bytes},
                {"seconds", seconds},
                {"chunks_to_repair", totals.chunks_to_repair}},
               io);
    return 0;
  }
  io.out << fmt::format("{} files, {} in {}\n", totals.num_files, format_bytes(totals.bytes),
                        format_seconds(seconds));
  if (totals.chunks_to_repair > 0) {
    io.err << fmt::format("{} chunks wait for repair: {}\n", totals.chunks_to_repair,
                          how_to_repair(*open.store, url.store));
  }
  return 0;
}

Result<int> run_store_get(const StoreCopyOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.from, options.place, {.access = StoreAccess::Read}, io));
  Store& store = *open.store;
  TRIREME_TRY(files, store.files(open.url.path));
  if (files.empty()) {
    return usage(
        fmt::format("{}: there is no such file; list the files with: trireme store ls store://{}",
                    options.from, open.url.store));
  }
  GetTotals totals;
  const int64_t begin_ns = monotonic_ns();
  for (const WrittenFile& file : files) {
    const size_t cut = open.url.path.empty() ? 0 : open.url.path.size() + 1;
    const std::string to =
        file.path == open.url.path ? options.to : options.to + "/" + file.path.substr(cut);
    TRIREME_TRY(answer, store.ask({.kind = QuestionKind::File, .text = file.path}));
    TRIREME_TRY(got, get_to_file(store, answer, to));
    add(got, totals);
  }
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  const int64_t num_losses = int64_t(totals.losses.size());
  const int64_t num_repaired = num_losses == 0 ? 0 : repair_losses(options, totals.losses, io);
  if (options.json) {
    print_json({{"files", files.size()},
                {"bytes", totals.bytes},
                {"seconds", seconds},
                {"decoded_blocks", totals.decoded_blocks},
                {"damaged_chunks", num_losses},
                {"repaired_chunks", num_repaired}},
               io);
    return 0;
  }
  io.out << fmt::format("{} files, {} in {}\n", files.size(), format_bytes(totals.bytes),
                        format_seconds(seconds));
  if (totals.decoded_blocks > 0) {
    io.err << fmt::format("{} blocks were decoded, {} chunks were damaged, {} are repaired\n",
                          totals.decoded_blocks, num_losses, num_repaired);
  }
  return 0;
}

Result<int> run_store_ls(const StoreUrlOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.url, options.place, {.access = StoreAccess::Read}, io));
  TRIREME_TRY(files, open.store->files(open.url.path));
  Json list = Json::array();
  for (const WrittenFile& file : files) {
    if (options.json) {
      list.push_back({{"path", file.path}, {"bytes", file.record.bytes}});
    } else {
      io.out << fmt::format("{:>12}  {}\n", file.record.bytes, file.path);
    }
  }
  if (options.json) print_json({{"files", list}}, io);
  return 0;
}

Result<int> run_store_stat(const StoreUrlOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.url, options.place, {.access = StoreAccess::Read}, io));
  TRIREME_TRY(answer, open.store->ask({.kind = QuestionKind::File, .text = open.url.path}));
  const FileRecord& record = answer.files.front().record;
  Json blocks = Json::array();
  std::string text = fmt::format("{}: {} bytes, checksum {}\n", open.url.path, record.bytes,
                                 hex64(record.checksum));
  for (const BlockRecord& block : answer.blocks) {
    text += fmt::format("  block {:016x}: chunks of {} on", block.id, block.chunk_bytes);
    for (const int32_t server : block.servers) {
      text += server == kNoServer ? " -" : fmt::format(" s{}", server);
    }
    text += "\n";
    blocks.push_back({{"block", hex64(block.id)},
                      {"chunk_bytes", block.chunk_bytes},
                      {"servers", block.servers}});
  }
  if (options.json) {
    print_json({{"path", open.url.path},
                {"bytes", record.bytes},
                {"checksum", hex64(record.checksum)},
                {"blocks", blocks}},
               io);
  } else {
    io.out << text;
  }
  return 0;
}

Result<int> run_store_rm(const StoreRemoveOptions& options, CommandIo& io) {
  TRIREME_TRY(open, open_store(options.url, options.place, {.access = StoreAccess::Write}, io));
  TRIREME_TRY(files, files_to_remove(*open.store, open.url, options.is_recursive));
  TRIREME_TRY_DONE(remove_files(*open.store, files));
  if (options.json) print_json({{"removed", open.url.path}, {"files", files.size()}}, io);
  return 0;
}

}  // namespace trireme
