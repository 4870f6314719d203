#include "store/metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/store_path.h"

namespace trireme {
namespace {

constexpr size_t kKeptAnswers = 4096;

Error fenced(const std::string& path) {
  return usage(fmt::format(
      "{}: a newer writer has begun this file, so this write is of an old epoch; put it again",
      path));
}

}  // namespace

std::string Metadata::apply(std::string_view bytes) {
  const Result<MetadataCommand> command = unpack_command(bytes);
  if (!command.ok()) return pack_error(command.error());
  const auto kept = answers_.find(command->number);
  if (kept != answers_.end()) return kept->second;
  const Result<std::vector<uint64_t>> tokens = run(*command);
  // A refusal is not kept: it has changed nothing, and what was refused may be possible later.
  if (!tokens.ok()) return pack_error(tokens.error());
  std::string answer = pack_tokens(*tokens);
  keep_answer(command->number, answer);
  return answer;
}

void Metadata::keep_answer(uint64_t number, const std::string& answer) {
  answers_[number] = answer;
  kept_.push_back({number, answer});
  if (kept_.size() <= kKeptAnswers) return;
  answers_.erase(kept_.front().number);
  kept_.pop_front();
}

Result<std::vector<uint64_t>> Metadata::run(const MetadataCommand& command) {
  const auto without_tokens = [](const Status& status) -> Result<std::vector<uint64_t>> {
    if (!status.ok()) return status.error();
    return std::vector<uint64_t>{};
  };
  if (command.kind == CommandKind::Create) return without_tokens(create(command));
  if (facts_.id == 0)
    return usage("the store is not created yet; create it with: trireme store create");
  TRIREME_TRY_DONE(check_maintainer(command));
  switch (command.kind) {
    case CommandKind::Begin:
      return begin(command);
    case CommandKind::Commit:
      return without_tokens(commit(command));
    case CommandKind::Abort:
      abort(command);
      break;
    case CommandKind::Renew:
      return without_tokens(renew(command));
    case CommandKind::Remove:
      return without_tokens(remove(command));
    case CommandKind::Lose:
      return without_tokens(lose(command));
    case CommandKind::Place:
      return without_tokens(place(command));
    case CommandKind::Collect:
      for (const Garbage& garbage : command.garbage) garbage_.erase(garbage);
      break;
    case CommandKind::Server:
      return without_tokens(change_server(command));
    case CommandKind::Create:
      break;
  }
  return std::vector<uint64_t>{};
}

Status Metadata::check_maintainer(const MetadataCommand& command) const {
  if (!maintains(command.kind) || command.tokens.empty()) return Done{};
  const auto newest = writers_.find(kMaintainerPath);
  if (newest != writers_.end() && newest->second.token == command.tokens.front()) return Done{};
  return usage("a newer command maintains the store, so this one is of an old epoch; run it again");
}

Status Metadata::create(const MetadataCommand& command) {
  const StoreFacts& facts = command.facts;
  if (facts_.id != 0) return usage("the store exists already");
  TRIREME_TRY_DONE(check_store_name(facts.name));
  TRIREME_TRY(code, parse_store_code(text_of(facts.code)));
  const bool is_valid = facts.id != 0 && code == facts.code && facts.most_chunk_bytes >= 1 &&
                        facts.most_chunk_bytes <= kMostChunkBytes;
  if (!is_valid) return usage("a store needs a number, a code and chunks of 1 byte to 8 MiB");
  if (int(command.servers.size()) < code.num_chunks() || command.servers.size() > kMostServers) {
    return usage(fmt::format("the code {} needs {} to {} servers, and {} were given", text_of(code),
                             code.num_chunks(), kMostServers, command.servers.size()));
  }
  std::set<std::string> names;
  for (const ServerRecord& server : command.servers) {
    const bool is_new = !server.name.empty() && names.insert(server.name).second;
    if (!is_new) return usage(fmt::format("two servers are called \"{}\"", server.name));
  }
  facts_ = facts;
  servers_ = command.servers;
  for (ServerRecord& server : servers_) server.replaced_at_view = 0;
  chunks_of_server_.resize(servers_.size());
  bytes_of_server_.resize(servers_.size());
  return Done{};
}

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

Result<std::vector<uint64_t>> Metadata::begin(const MetadataCommand& command) {
  for (const std::string& path : command.paths) TRIREME_TRY_DONE(check_path(path));
  std::vector<uint64_t> tokens;
  for (const std::string& path : command.paths) {
    tokens.push_back(next_token_++);
    writers_[path] = {.token = tokens.back()};
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
  return Done{};
}

Status Metadata::remove(const MetadataCommand& command) {
  if (command.paths.size() != 1 || !files_.contains(command.paths[0])) {
    return usage("the store has no such file");
  }
  remove_file(command.paths[0]);
  return Done{};
}

// The chunks of a writer that has not ended are in no block yet, and no orphans.
bool Metadata::is_orphan(const Move& move) const {
  const bool exists = move.from >= 0 && move.from < int32_t(servers_.size()) && move.chunk >= 0 &&
                      move.chunk < facts_.code.num_chunks();
  if (!exists) return false;
  const auto block = blocks_.find(move.block);
  if (block != blocks_.end()) return block->second.servers[size_t(move.chunk)] != move.from;
  const uint64_t token = token_of_block(move.block);
  return token < next_token_ && std::ranges::none_of(writers_, [&](const auto& writer) {
           return writer.second.token == token;
         });
}

// A damaged file that is no chunk of a block becomes garbage.
Status Metadata::lose(const MetadataCommand& command) {
  for (const Move& move : command.moves) {
    const auto block = blocks_.find(move.block);
    const bool is_there = block != blocks_.end() && move.chunk >= 0 &&
                          move.chunk < int32_t(block->second.servers.size()) &&
                          move.from != kNoServer &&
                          block->second.servers[size_t(move.chunk)] == move.from;
    if (is_there) {
      set_server(block->second, move.chunk, kNoServer);
    } else if (is_orphan(move)) {
      garbage_.insert({move.from, move.block, move.chunk});
    }
  }
  return Done{};
}

// A move that does not fit any more is left out: what it has written becomes garbage.
Status Metadata::place(const MetadataCommand& command) {
  for (const Move& move : command.moves) {
    if (move.to < 0 || move.to >= int32_t(servers_.size())) continue;
    const Garbage written{move.to, move.block, move.chunk};
    const auto found = blocks_.find(move.block);
    // The chunk may have been reported as lost meanwhile. What was written is intact all the same.
    const bool is_there = found != blocks_.end() && move.chunk >= 0 &&
                          move.chunk < int32_t(found->second.servers.size()) &&
                          (found->second.servers[size_t(move.chunk)] == move.from ||
                           found->second.servers[size_t(move.chunk)] == kNoServer);
    const bool is_possible = is_there &&
                             servers_[size_t(move.to)].replaced_at_view <= command.view &&
                             std::ranges::count(found->second.servers, move.to) == 0;
    if (!is_possible) {
      const bool is_in_use =
          found != blocks_.end() && std::ranges::count(found->second.servers, move.to) > 0;
      if (!is_in_use) garbage_.insert(written);
      continue;
    }
    set_server(found->second, move.chunk, move.to);
    garbage_.erase(written);
    if (move.from != kNoServer) garbage_.insert({move.from, move.block, move.chunk});
  }
  return Done{};
}

Status Metadata::change_server(const MetadataCommand& command) {
  if (command.servers.size() != 1 || command.server_index < 0 ||
      command.server_index > int32_t(servers_.size()) ||
      command.server_index >= int32_t(kMostServers)) {
    return usage("the store has no such server");
  }
  const size_t index = size_t(command.server_index);
  ServerRecord server = command.servers[0];
  if (index == servers_.size()) {
    if (server.name.empty() || std::ranges::count(servers_, server.name, &ServerRecord::name) > 0) {
      return usage(fmt::format("two servers are called \"{}\"", server.name));
    }
    server.replaced_at_view = ++view_;
    servers_.push_back(server);
    chunks_of_server_.emplace_back();
    bytes_of_server_.push_back(0);
    return Done{};
  }
  const ServerRecord& old = servers_[index];
  if (server.name != old.name || server.incarnation < old.incarnation ||
      server.incarnation > old.incarnation + 1) {
    return usage(fmt::format(
        "{}: disk {} of this server is of an old epoch, and {} is in use; empty the folder, and it "
        "is taken as a new disk",
        old.name, server.incarnation, old.incarnation));
  }
  const bool is_replaced = server.incarnation > old.incarnation;
  if (server.state == ServerState::Drained && !is_replaced && !chunks_of_server_[index].empty()) {
    return usage(
        fmt::format("{} still holds {} chunks", old.name, chunks_of_server_[index].size()));
  }
  server.replaced_at_view = is_replaced ? view_ + 1 : old.replaced_at_view;
  ++view_;
  if (is_replaced) {
    const auto chunks = chunks_of_server_[index];
    for (const auto& [block, chunk] : chunks) set_server(blocks_.at(block), chunk, kNoServer);
    std::erase_if(garbage_, [&](const Garbage& item) { return item.server == int32_t(index); });
  }
  servers_[index] = server;
  return Done{};
}

void Metadata::set_server(BlockRecord& block, int32_t chunk, int32_t server) {
  int32_t& place = block.servers[size_t(chunk)];
  if (place != kNoServer) {
    chunks_of_server_[size_t(place)].erase({block.id, chunk});
    bytes_of_server_[size_t(place)] -= block.chunk_bytes;
  }
  place = server;
  if (server != kNoServer) {
    chunks_of_server_[size_t(server)].insert({block.id, chunk});
    bytes_of_server_[size_t(server)] += block.chunk_bytes;
  }
  if (std::ranges::count(block.servers, kNoServer) > 0) {
    incomplete_.insert(block.id);
  } else {
    incomplete_.erase(block.id);
  }
}

void Metadata::add_block(const BlockRecord& block) {
  BlockRecord& added = blocks_[block.id] = block;
  std::ranges::fill(added.servers, kNoServer);
  for (int32_t chunk = 0; chunk < int32_t(block.servers.size()); ++chunk) {
    set_server(added, chunk, block.servers[size_t(chunk)]);
  }
}

void Metadata::add_file(const std::string& path, const FileRecord& file) {
  files_[path] = file;
  file_bytes_ += int64_t(file.bytes);
  for (const Extent& extent : file.extents) ++num_extents_[extent.block];
}

void Metadata::remove_file(const std::string& path) {
  const auto file = files_.find(path);
  file_bytes_ -= int64_t(file->second.bytes);
  for (const Extent& extent : file->second.extents) {
    if (--num_extents_[extent.block] > 0) continue;
    num_extents_.erase(extent.block);
    BlockRecord& block = blocks_.at(extent.block);
    for (int32_t chunk = 0; chunk < int32_t(block.servers.size()); ++chunk) {
      const int32_t server = block.servers[size_t(chunk)];
      if (server != kNoServer) garbage_.insert({server, block.id, chunk});
      set_server(block, chunk, kNoServer);
    }
    incomplete_.erase(block.id);
    blocks_.erase(extent.block);
  }
  files_.erase(file);
}

}  // namespace trireme
