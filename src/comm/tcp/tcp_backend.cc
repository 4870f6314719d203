#include "comm/tcp/tcp_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/failure.h"
#include "comm/rank_watch.h"
#include "comm/tcp/tcp_transport.h"
#include "comm/tcp/tcp_world.h"

namespace trireme {
namespace {

// A host that does not answer for so long counts as gone. A peer that is stopped still answers.
// The ranks of other hosts then wait for the next epoch when the leader gives the host up
// (agent/remote_host.h).
constexpr double kSilenceS = 3.5;
constexpr double kFinishS = 1.0;       // for the last messages of a rank that leaves
constexpr double kAbortFinishS = 0.5;  // for the news that the run is over
// The communication thread looks at events that cannot wake it so often: at the bells of ranks of
// its host while it waits for a socket, and at the news of other hosts.
constexpr int64_t kSocketNapNs = 100'000;
constexpr int64_t kIdleNapNs = 2'000'000;

template <typename T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw Failure(result.error());
  return std::move(result).value();
}

}  // namespace

TcpBackend::TcpBackend(const TcpPlace& place, const WorldOptions& options)
    : place_(place),
      options_(options),
      windows_(place.rank, place.size),
      inbox_bytes_(place.size * int64_t(sizeof(ByteRing))),
      inboxes_(static_cast<std::byte*>(windows_.own().allocate(inbox_bytes_))) {
  TRIREME_CHECK(place_.size <= kLargestTcpWorld, "too many ranks");
  const int rank = place_.rank;
  if (options_.nodes) place_.node = fmt::format("{}", options_.nodes->node_of(rank));
  join();
  const auto on_node = std::count(node_of_.begin(), node_of_.end(), node_of_[size_t(rank)]);
  spins_ = on_node <= int(std::thread::hardware_concurrency()) ? 4000 : 50;
}

TcpBackend::~TcpBackend() = default;

void TcpBackend::join() {
  const Deadline deadline = Deadline::after(join_timeout_s(options_.timeout_s));
  const auto share = [&](const std::vector<Introduction>& ranks) {
    std::vector<WindowAddress> windows;
    for (const Introduction& rank : ranks) windows.push_back(rank.window);
    return windows_.map(windows);
  };
  const int64_t inbox = inboxes_ - windows_.own().base();
  JoinedJob job = value_or_throw(join_job(place_, windows_.address(), inbox, deadline, share));
  node_of_.assign(job.first_of_node.begin(), job.first_of_node.end());
  const int first = node_of_[size_t(place_.rank)];
  is_alone_ = std::count(node_of_.begin(), node_of_.end(), first) == 1;
  if (is_alone_) windows_.unmap();
  fabric_ = windows_.make_fabric(first);
  news_ = std::make_unique<HostNews>(place_.rank, *fabric_);
  mailbox_ = std::make_unique<Mailbox>(place_.rank, place_.epoch, *fabric_, place_.log);
  mailbox_->on_news = [this](const NewsMessage& news) { news_->apply(news); };
  fabric_->on_abort = [this](int rank, const Error& error) {
    news_->spread_abort(rank, error);
    mailbox_->wake();
  };
  std::vector<Introduction> ranks = job.ranks;
  make_links(std::move(ranks), value_or_throw(connect_peers(place_, std::move(job), deadline)));
  processes_ = windows_.watch_processes(*fabric_);
}

// The ring of rank `of` into which rank `from` writes.
ByteRing& TcpBackend::inbox(int of, int from, const Introduction& introduction) {
  const int64_t offset = introduction.inbox + from * int64_t(sizeof(ByteRing));
  TRIREME_CHECK(offset + int64_t(sizeof(ByteRing)) <= SharedWindow::bytes(),
                "an inbox lies outside its window");
  return *reinterpret_cast<ByteRing*>(windows_.window(of)->base() + offset);
}

void TcpBackend::make_links(std::vector<Introduction> ranks, std::vector<Socket> sockets) {
  const int own = place_.rank;
  for (int peer = 0; peer < place_.size; ++peer) {
    if (peer == own) continue;
    if (Socket& socket = sockets[size_t(peer)]; socket.is_open()) {
      prepare_for_messages(socket, std::min(kSilenceS, options_.timeout_s));
      mailbox_->add_link(peer, std::make_unique<SocketStream>(std::move(socket)));
    } else {
      mailbox_->add_link(peer, std::unique_ptr<ByteStream>(std::make_unique<RingStream>(
                                   *fabric_, peer, inbox(peer, own, ranks[size_t(peer)]),
                                   inbox(own, peer, ranks[size_t(own)]))));
    }
  }
}

std::unique_ptr<Transport> TcpBackend::connect(const GroupShape& shape) {
  return std::make_unique<TcpTransport>(*mailbox_, *fabric_, shape, options_.fault_hook);
}

std::optional<SharedView> TcpBackend::view(const GroupShape& shape) {
  return windows_.view(shape, options_.fault_hook);
}

std::unique_ptr<SharedMemory> TcpBackend::allocate_shared(int64_t bytes) {
  return windows_.allocate(bytes);
}

int TcpBackend::polls(bool moves_messages) const {
  if (!moves_messages) return 20;
  return mailbox_->has_sockets() ? std::min(spins_, 10) : spins_;  // a poll of sockets is a call
}

int64_t TcpBackend::nap_ns(bool moves_messages) const {
  return mailbox_->has_sockets() ? kIdleNapNs : Backend::nap_ns(moves_messages);
}

void TcpBackend::sleep(Doorbell& bell, uint32_t seen, bool moves_messages) {
  // Bytes that arrived before the sleep was announced have not rung the bell.
  if (mailbox_->poll()) {
    Fabric::cancel_sleep(bell);
  } else if (is_alone_ || mailbox_->awaits_sockets()) {
    mailbox_->wait_for_sockets(is_alone_ ? nap_ns(moves_messages) : kSocketNapNs);
    Fabric::cancel_sleep(bell);
  } else {
    Fabric::sleep(bell, seen, nap_ns(moves_messages));
  }
}

void TcpBackend::wake_thread() {
  const RankCell& cell = fabric_->cell(place_.rank);
  const auto sleeps = [](const Doorbell& bell) {
    return bell.sleepers.load(std::memory_order_seq_cst) != 0;
  };
  if (is_alone_ && (sleeps(cell.bell) || sleeps(cell.own_bell))) mailbox_->wake();
  Backend::wake_thread();
}

void TcpBackend::poll() {
  mailbox_->poll();
  if (mailbox_->has_sockets()) {
    while (news_->next(message_)) mailbox_->send_news(message_);
  }
}

void TcpBackend::leave_thread() {
  const bool is_aborted = fabric_->aborted();
  poll();
  if (!is_aborted) mailbox_->send_news(news_->left_message());
  mailbox_->finish(Deadline::after(is_aborted ? kAbortFinishS : kFinishS));
}

Status run_tcp_rank(const TcpPlace& place, const WorldOptions& options,
                    const std::function<void(World&)>& function) {
  try {
    TcpBackend backend(place, options);
    Fabric& fabric = backend.fabric();
    const RankWatch watch(fabric, place.rank, 1, options);
    {
      World world(backend, options);
      try {
        function(world);
      } catch (const std::exception& error) {
        abort_with(fabric, place.rank, error);
      }
      fabric.leave(place.rank);
    }
    throw_first_error(fabric);
    return Done{};
  } catch (const Failure& failure) {
    return failure.error();
  }
}

}  // namespace trireme
