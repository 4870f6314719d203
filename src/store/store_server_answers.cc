// How a server of a store receives requests and answers them.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/failure.h"
#include "base/hash.h"
#include "base/remove_folder.h"
#include "store/buffer_pool.h"
#include "store/disk_file.h"
#include "store/mount_point.h"
#include "store/store_server.h"

namespace trireme {
namespace {

constexpr double kRequestS = 30.0;  // at most, to receive a request, for the log, or for a reply
constexpr double kReleaseS = 5.0;   // for requests that use the log of a store that is given up

Result<Socket> listen_until(const std::string& address, Deadline deadline) {
  for (;;) {
    Result<Socket> listener = listen_at(address);
    if (listener.ok() || deadline.left_ms() == 0) return listener;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The identity goes last, because a folder without it counts as empty.
Status remove_store_from(const std::string& folder) {
  for (const char* name : {"/log", "/chunks"}) {
    if (!remove_folder(folder + name)) return damaged(folder + name + ": cannot be removed");
  }
  for (const char* name : {"/epoch", "/log.json", "/store.json"}) {
    std::error_code error;
    std::filesystem::remove(folder + name, error);
    if (error) return damaged(folder + name + ": cannot be removed: " + error.message());
  }
  return Done{};
}

StoreReply reply_of(const Error& error) { return {.error = error}; }
StoreReply reply_of(const Status& status) {
  return status.ok() ? StoreReply{} : reply_of(status.error());
}
StoreReply reply_of(Result<StoreReply> reply) {
  return reply.ok() ? std::move(*reply) : reply_of(reply.error());
}

}  // namespace

Visits::Serve StoreServer::serves_visitor() {
  return [this, buffer = std::make_shared<BlockBuffer>(kMostChunkBytes)](const Socket& socket) {
    return serve_one(socket, buffer->bytes());
  };
}

Status StoreServer::serve_one(const Socket& socket, std::span<std::byte> buffer) {
  std::span<std::byte> payload = buffer;
  TRIREME_TRY(head, receive_store_frame(socket, payload, Deadline::after(kRequestS)));
  TRIREME_TRY(request, unpack_request(head));
  std::span<const std::byte> back;
  const bool reads = request.op == StoreOp::Read || request.op == StoreOp::ReadPart;
  const std::span<std::byte> room = reads ? buffer : payload;
  const StoreReply reply = answer(request, room, back);
  return send_store_frame(socket, pack_reply(reply), back, Deadline::after(kRequestS));
}

StoreReply StoreServer::answer(const StoreRequest& request, std::span<std::byte> payload,
                               std::span<const std::byte>& back) {
  if (request.op == StoreOp::Describe) {
    if (const Status disk = check_disk(); !disk.ok()) return reply_of(disk);
    return {.text = pack_description(description())};
  }
  if (request.op == StoreOp::Assign) return reply_of(assign(request));
  if (request.op == StoreOp::Release) return reply_of(release(request));
  if (request.op == StoreOp::Apply || request.op == StoreOp::Query ||
      request.op == StoreOp::Members || request.op == StoreOp::ChangeMembers) {
    return reply_of(ask_log(request));
  }
  std::shared_lock maintains(maintenance_, std::defer_lock);
  Result<std::shared_ptr<ChunkFolder>> fenced = check_fence(request);
  if (fenced.ok() && request.epoch != 0) {
    const Status raised = raise_epoch(request.epoch);
    maintains.lock();
    fenced = raised.ok() ? check_fence(request) : raised.error();
  }
  if (!fenced.ok()) return reply_of(fenced.error());
  if (request.op == StoreOp::CheckMetadata) {
    Result<std::string> found = check_metadata(request.text == kMend);
    return found.ok() ? StoreReply{.text = std::move(*found)} : reply_of(found.error());
  }
  if (request.op == StoreOp::KeepLog) return reply_of(keep_log(request));
  if (request.op == StoreOp::LogServers) return reply_of(set_log_servers(request));
  ChunkFolder& chunks = **fenced;
  if (request.op == StoreOp::Write) {
    return reply_of(chunks.write(request.chunk, payload, request.checksum));
  }
  if (request.op == StoreOp::Remove) return reply_of(chunks.remove(request.chunk));
  if (request.op == StoreOp::List) return reply_of(list(chunks, request));
  if (request.op == StoreOp::ReadPart) return reply_of(read_part(chunks, request, payload, back));
  const auto bytes = payload.first(request.chunk_bytes);
  const ChunkRead read = chunks.read(request.chunk, bytes, request.checksum);
  if (read.state == ChunkState::Intact) back = bytes;
  return {.state = read.state, .text = read.why};
}

// Requests of a maintainer may still arrive, or be at work, after a newer one has begun. So the
// epoch of the newer one waits until the older requests are done, and is written to the disk before
// anything is done for it: a server refuses the older maintainer after a restart, too.
Status StoreServer::raise_epoch(uint64_t epoch) {
  const auto is_new = [&] {
    const std::lock_guard lock(mutex_);
    return epoch > epoch_;
  };
  if (!is_new()) return Done{};
  const std::unique_lock alone(maintenance_);
  if (!is_new()) return Done{};
  TRIREME_TRY_DONE(replace_file(epoch_path(), std::to_string(epoch), nullptr));
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  return Done{};
}

Result<std::shared_ptr<ChunkFolder>> StoreServer::check_fence(const StoreRequest& request) {
  // A write must not make an empty disk one that is not empty.
  const Status disk = check_disk();
  const std::lock_guard lock(mutex_);
  const FolderIdentity& mine = description_.identity;
  if (chunks_ == nullptr || request.store != mine.store) {
    return usage(fmt::format("{} serves {}, not the store that was meant", description_.address,
                             mine.store == 0 ? "no store" : mine.store_name));
  }
  if (request.incarnation != mine.incarnation) {
    return usage(fmt::format("{} has disk {}, and disk {} was meant", description_.address,
                             mine.incarnation, request.incarnation));
  }
  if (request.epoch != 0 && request.epoch < epoch_) {
    return usage(fmt::format(
        "{}: a newer command maintains the store, so this one is of an old epoch; run it again",
        description_.address));
  }
  if (!disk.ok()) return disk.error();
  return chunks_;
}

Status StoreServer::assign(const StoreRequest& request) {
  TRIREME_TRY(wanted, unpack_description(request.text));
  const std::lock_guard lock(mutex_);
  const FolderIdentity& mine = description_.identity;
  if (wanted.identity.store == 0) return usage("a store has the number 0");
  if (mine.store != 0) {
    if (mine == wanted.identity && description_.log_servers == wanted.log_servers) {
      if (log_ != nullptr || !keeps_metadata(description_)) return Done{};
      return Error{ErrorKind::Runtime, description_.address +
                                           ": its log of the metadata does not run; start the "
                                           "server again"};
    }
    return usage(fmt::format("{} is {} of the store {} already; a store begins with empty folders",
                             description_.address, mine.server, mine.store_name));
  }
  return become(wanted);
}

// The creation of the store has failed on another server.
Status StoreServer::release(const StoreRequest& request) {
  const std::lock_guard one_at_a_time(release_);
  std::string log_address;
  std::shared_ptr<LogOfServer> ended_log;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t mine = description_.identity.store;
    if (mine == 0 || mine != request.store) return Done{};
    TRIREME_TRY_DONE(check_has_no_chunks());
    ended_log = std::move(log_);
    if (!log_listener_.is_open()) log_address = description_.log_address;
  }
  // Requests under way hold the log, and with it the port, until they end.
  ended_log.reset();
  if (!log_address.empty()) {
    Result<Socket> opened = listen_until(log_address, Deadline::after(kReleaseS));
    const std::lock_guard lock(mutex_);
    // Others may have the port if this server has not used it. It is tried again when it is needed.
    if (!opened.ok() && keeps_metadata(description_)) return opened.error();
    if (opened.ok()) log_listener_ = std::move(*opened);
  }
  const std::lock_guard lock(mutex_);
  TRIREME_TRY_DONE(check_has_no_chunks());
  TRIREME_TRY_DONE(remove_store_from(options_.folder));
  chunks_.reset();
  epoch_ = 0;
  description_.identity = {};
  description_.log_servers.clear();
  return Done{};
}

Status StoreServer::check_has_no_chunks() {
  TRIREME_TRY(names, chunks_->list());
  if (names.empty()) return Done{};
  return usage(description_.address + " has chunks, so its store was made");
}

Result<StoreReply> StoreServer::read_part(ChunkFolder& chunks, const StoreRequest& request,
                                          std::span<std::byte> room,
                                          std::span<const std::byte>& back) {
  TRIREME_TRY(range, unpack_range(request.text, request.chunk_bytes));
  const auto bytes = room.first(range.bytes);
  const ChunkPart part{request.chunk_bytes, request.checksum, range.offset};
  const ChunkRead read = chunks.read_part(request.chunk, part, bytes);
  if (read.state != ChunkState::Intact) return StoreReply{.state = read.state, .text = read.why};
  back = bytes;
  return StoreReply{.text = hex64(hash64(bytes))};
}

Result<StoreReply> StoreServer::list(ChunkFolder& chunks, const StoreRequest& request) {
  TRIREME_TRY(names, chunks.list());
  std::erase_if(names, [&](const ChunkName& name) { return name <= request.chunk; });
  const size_t count = std::min(names.size(), kMostListedChunks);
  std::ranges::partial_sort(names, names.begin() + ptrdiff_t(count));
  names.resize(count);
  return StoreReply{.chunks = std::move(names)};
}

}  // namespace trireme
