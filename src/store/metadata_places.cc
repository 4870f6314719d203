// This file applies the commands that say where chunks are (Lose, Place and Server), and keeps the
// tables from disks to blocks.

#include <fmt/format.h>

#include <algorithm>

#include "store/metadata.h"

namespace trireme {

// The chunks of a writer that has not ended are in no block yet, and no orphans. The file of a
// chunk that is lost stays until the chunk is written again: it may be the best one that there is.
bool Metadata::is_orphan(const Move& move) const {
  const bool exists = move.from >= 0 && move.from < int32_t(servers_.size()) && move.chunk >= 0 &&
                      move.chunk < facts_.code.num_chunks();
  if (!exists) return false;
  const auto block = blocks_.find(move.block);
  if (block != blocks_.end()) {
    const int32_t place = block->second.servers[size_t(move.chunk)];
    return place != move.from && place != kNoServer;
  }
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
