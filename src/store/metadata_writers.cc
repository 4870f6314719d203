// This file applies the commands of those who write files: Begin, Commit, Abort and Renew.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "store/metadata.h"
#include "store/store_path.h"

namespace trireme {
namespace {

Error fenced(const std::string& path) {
  return usage(fmt::format(
      "{}: a newer writer has begun this file, so this write is of an old epoch; put it again",
      path));
}

}  // namespace

Status Metadata::check_path(const std::string& path) const {
  TRIREME_TRY_DONE(check_store_path(path));
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (files_.contains(folder)) {
      return usage(fmt::format("{}: {} is a file, not a folder", path, folder));
    }
  }
  const auto inside = files_.lower_bound(path + "/");
  if (inside != files_.end() && inside->first.starts_with(path + "/")) {
    return usage(fmt::format("{} is a folder; write to a name inside it", path));
  }
  return Done{};
}

// Work in the background must not fence a command of an operator, nor the other way round begin
// beside it.
Status Metadata::check_is_next_maintainer(const MetadataCommand& command) const {
  if (command.tokens.empty()) return Done{};
  const auto newest = writers_.find(kMaintainerPath);
  const uint64_t token = newest == writers_.end() ? 0 : newest->second.token;
  const bool is_next = command.paths.size() == 1 && command.paths.front() == kMaintainerPath &&
                       command.tokens.front() == token;
  if (is_next) return Done{};
  return usage("another command maintains the store");
}

Result<std::vector<uint64_t>> Metadata::begin(const MetadataCommand& command) {
  TRIREME_TRY_DONE(check_is_next_maintainer(command));
  for (const std::string& path : command.paths) TRIREME_TRY_DONE(check_path(path));
  std::vector<uint64_t> tokens;
  for (const std::string& path : command.paths) {
    tokens.push_back(next_token_++);
    writers_[path] = {.token = tokens.back()};
    if (path == kMaintainerPath) progress_ = {};
  }
  return tokens;
}

Status Metadata::check_files(const MetadataCommand& command) const {
  std::set<std::string> paths;
  for (const WrittenFile& file : command.files) {
    TRIREME_TRY_DONE(check_path(file.path));
    if (file.path.substr(0, file.path.find('/')) == kMaintainerPath) {
      return usage(file.path + ": the store keeps this name for itself; take another one");
    }
    const auto writer = writers_.find(file.path);
    if (writer == writers_.end() || writer->second.token != file.record.token) {
      return fenced(file.path);
    }
    if (!paths.insert(file.path).second) return usage(file.path + " is written twice at once");
  }
  for (const std::string& path : paths) {  // one of them may be a folder of another one
    const auto inside = paths.lower_bound(path + "/");
    if (inside != paths.end() && inside->starts_with(path + "/")) {
      return usage(fmt::format("{} is a file and a folder at once", path));
    }
  }
  return Done{};
}

Status Metadata::check_record(const BlockRecord& block) const {
  if (int(block.servers.size()) != facts_.code.num_chunks() || block.chunk_bytes == 0 ||
      block.chunk_bytes > facts_.most_chunk_bytes) {
    return usage(fmt::format("block {} is not of the code {} of this store", block.id,
                             text_of(facts_.code)));
  }
  std::set<int32_t> servers;
  for (const int32_t server : block.servers) {
    if (server == kNoServer) continue;
    if (server < 0 || server >= int32_t(servers_.size()) || !servers.insert(server).second) {
      return usage(
          fmt::format("block {} names server {}, which does not exist or has two of its chunks",
                      block.id, server));
    }
  }
  return Done{};
}

Result<std::map<uint64_t, BlockRecord>> Metadata::check_blocks(
    const MetadataCommand& command) const {
  std::set<uint64_t> tokens;
  for (const WrittenFile& file : command.files) tokens.insert(file.record.token);
  std::map<uint64_t, BlockRecord> blocks;
  for (BlockRecord block : command.blocks) {
    if (!tokens.contains(token_of_block(block.id)) || blocks_.contains(block.id) ||
        blocks.contains(block.id)) {
      return usage(
          fmt::format("block {} is sealed already, or belongs to another writer", block.id));
    }
    TRIREME_TRY_DONE(check_record(block));
    for (int32_t& server : block.servers) {
      if (server != kNoServer && servers_[size_t(server)].replaced_at_view > command.view) {
        server = kNoServer;
      }
    }
    const auto written = std::ranges::count_if(block.servers, [](int s) { return s != kNoServer; });
    if (written < facts_.code.num_data + 1) {
      return Error{ErrorKind::Runtime,
                   fmt::format("block {} has {} chunks on disks and needs at least {}; put its "
                               "files again",
                               block.id, written, facts_.code.num_data + 1)};
    }
    blocks[block.id] = block;
  }
  return blocks;
}

Status Metadata::check_extents(const FileRecord& file,
                               const std::map<uint64_t, BlockRecord>& in) const {
  uint64_t bytes = 0;
  for (const Extent& extent : file.extents) {
    const auto block = in.find(extent.block);
    const uint64_t most =
        block == in.end() ? 0 : uint64_t(facts_.code.num_data) * block->second.chunk_bytes;
    if (extent.bytes == 0 || extent.bytes > most || extent.offset > most - extent.bytes) {
      return usage(fmt::format("an extent is not inside block {}", extent.block));
    }
    bytes += extent.bytes;
  }
  if (bytes != file.bytes) return usage("the extents of a file do not add up to its length");
  return Done{};
}

Status Metadata::commit(const MetadataCommand& command) {
  TRIREME_TRY_DONE(check_files(command));
  TRIREME_TRY(blocks, check_blocks(command));
  std::set<uint64_t> used;
  for (const WrittenFile& file : command.files) {
    TRIREME_TRY_DONE(check_extents(file.record, blocks));
    for (const Extent& extent : file.record.extents) used.insert(extent.block);
  }
  if (used.size() != blocks.size()) return usage("a block of the command belongs to no file");
  for (const auto& [id, block] : blocks) add_block(block);
  for (const WrittenFile& file : command.files) {
    if (files_.contains(file.path)) remove_file(file.path);
    add_file(file.path, file.record);
    writers_.erase(file.path);
  }
  return Done{};
}

void Metadata::abort(const MetadataCommand& command) {
  const std::set<uint64_t> tokens(command.tokens.begin(), command.tokens.end());
  std::erase_if(writers_, [&](const auto& one) { return tokens.contains(one.second.token); });
  if (!writers_.contains(kMaintainerPath)) progress_ = {};
}

Status Metadata::renew(const MetadataCommand& command) {
  const std::set<uint64_t> tokens(command.tokens.begin(), command.tokens.end());
  std::vector<Writer*> found;
  for (auto& [path, writer] : writers_) {
    if (tokens.contains(writer.token)) found.push_back(&writer);
  }
  if (found.size() != command.tokens.size()) {
    return usage(
        "a newer writer has begun a file of this write, or a scrub took the writer for dead; put "
        "the files again");
  }
  for (Writer* const writer : found) ++writer->renewals;
  const auto maintainer = writers_.find(kMaintainerPath);
  const bool is_maintainer =
      maintainer != writers_.end() && tokens.contains(maintainer->second.token);
  if (is_maintainer) progress_ = command.progress;
  return Done{};
}

}  // namespace trireme
