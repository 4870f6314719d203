#include "coord/coord.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "coord/etcd_coord.h"
#include "coord/file_coord.h"

namespace trireme {
namespace {

constexpr int kPollEveryMs = 20;
constexpr std::string_view kFileScheme = "file:";
constexpr std::string_view kEtcdScheme = "etcd:";

}  // namespace

Result<std::unique_ptr<Coord>> open_coord(const std::string& where, const std::string& job) {
  if (where.starts_with(kFileScheme) && where.size() > kFileScheme.size()) {
    TRIREME_TRY(opened, FileCoord::open(where.substr(kFileScheme.size())));
    return std::unique_ptr<Coord>(std::move(opened));
  }
  if (where.starts_with(kEtcdScheme) && where.find(':', kEtcdScheme.size()) != std::string::npos) {
    return std::unique_ptr<Coord>(new EtcdCoord(where.substr(kEtcdScheme.size()), job));
  }
  return usage(
      fmt::format("coord {}: expected file:DIR or etcd:HOST:PORT, such as file:my/run/coord or "
                  "etcd:10.0.0.1:2379",
                  where));
}

Result<CoordEntry> wait_for_change(Coord& coord, const std::string& key, int64_t known_version,
                                   Deadline deadline) {
  while (true) {
    const std::string place = fmt::format("waiting for key {} of {}", key, coord.name());
    Result<CoordEntry> entry = coord.get(key, deadline);
    if (!entry.ok()) return with_context(entry.error(), place);
    if (entry->version != known_version) return entry;
    if (deadline.left_ms() == 0) {
      return Error{ErrorKind::Runtime, fmt::format("{}: it still has version {} at the deadline",
                                                   place, known_version)};
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::min(kPollEveryMs, deadline.left_ms())));
  }
}

Result<CoordReply> perform(Coord& coord, const CoordCall& call, Deadline deadline) {
  CoordReply reply;
  switch (call.kind) {
    case CoordCall::Kind::List: {
      TRIREME_TRY(entries, coord.list(call.prefix, deadline));
      reply.entries = std::move(entries);
      break;
    }
    case CoordCall::Kind::CompareAndSwap: {
      TRIREME_TRY(swap, coord.compare_and_swap(call.write, deadline));
      reply.is_done = swap.is_written;
      reply.entries = {std::move(swap.entry)};
      break;
    }
    case CoordCall::Kind::Grant: {
      TRIREME_TRY(lease, coord.grant(call.seconds, deadline));
      reply.lease = lease;
      break;
    }
    case CoordCall::Kind::KeepAlive: {
      TRIREME_TRY(is_alive, coord.keep_alive(call.lease, deadline));
      reply.is_done = is_alive;
      break;
    }
    case CoordCall::Kind::Revoke:
      TRIREME_TRY_DONE(coord.revoke(call.lease, deadline));
      break;
  }
  return reply;
}

}  // namespace trireme
