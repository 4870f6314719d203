#include "comm/parameter_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "base/check.h"
#include "comm/fabric.h"
#include "comm/waited_time.h"

namespace trireme {
namespace {

constexpr int kRequestTag = 1;
constexpr int kDataTag = 2;

enum Kind : int64_t { kPull, kPush, kLeave };

struct Request {
  int64_t kind;
  int64_t num_pushes;  // pushes of the worker, this one included
  PushValues values;
};
static_assert(sizeof(Request) == 4 * sizeof(int64_t));

TensorRef tensor_of(Request& request) { return {&request, DType::I64, Shape{4}}; }
TensorRef tensor_of(int64_t& number) { return {&number, DType::I64, Shape{1}}; }
TensorRef tensor_of(std::span<const float> x) {
  return {const_cast<float*>(x.data()), DType::F32, Shape{int64_t(x.size())}};
}

}  // namespace

// A server always waits for a request of every worker, and answers it as soon as it is allowed.
class ParameterServer::Impl {
 public:
  Impl(Group& group, const ParameterServerOptions& options, std::span<float> parameters,
       ServerUpdate update, const CallSite& site)
      : group_(group),
        options_(options),
        parameters_(parameters),
        gradient_(parameters.size()),
        update_(std::move(update)),
        site_(site),
        begin_(balanced_begin(options.num_elements, options.num_servers, group.rank())) {
    const int num_workers = group.size() - options.num_servers;
    workers_.resize(size_t(num_workers));
    for (int w = 0; w < num_workers; ++w) listen(w);
  }

  int64_t serve(int64_t num_updates) {
    const int64_t before = version_;
    run_until([&] { return version_ - before >= num_updates; });
    return version_ - before;
  }

  void dismiss() {
    is_dismissed_ = true;
    run_until([] { return false; });
  }

 private:
  struct Worker {
    Request request{};
    Work incoming;
    bool wants_parameters = false;
    bool left = false;
    int64_t num_pushes = 0;
  };

  // Serves until `is_enough` or until all workers have left. Checks between any two requests.
  template <typename IsEnough>
  void run_until(IsEnough&& is_enough) {
    int idle = 0;
    WaitedTime silence(steady_now_ns());
    while (num_left_ < int(workers_.size()) && !is_enough()) {
      const int64_t before = num_events_;
      for (size_t w = 0; w < workers_.size() && !is_enough(); ++w) look_at(int(w));
      for (size_t w = 0; w < workers_.size(); ++w) answer(int(w));
      idle = num_events_ == before ? idle + 1 : 0;
      if (idle == 0) silence = WaitedTime(steady_now_ns());
      if (idle > 200) pause(silence);
    }
  }

  void pause(WaitedTime& silence) const {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    silence.look(steady_now_ns());
    if (double(silence.ns()) * 1e-9 < options_.timeout_s) return;
    const std::string why = fmt::format(
        "parameter server {}: no worker has sent a request within the deadline of {:g} s",
        group_.rank(), options_.timeout_s);
    group_.abort(why);
    throw CommError(why);
  }

  int rank_of(int w) const { return options_.num_servers + w; }
  void listen(int w) {
    Worker& worker = workers_[size_t(w)];
    worker.incoming = group_.start_recv(tensor_of(worker.request), rank_of(w), kRequestTag, site_);
  }

  void look_at(int w) {
    Worker& worker = workers_[size_t(w)];
    if (worker.left || worker.wants_parameters || !worker.incoming.test()) return;
    ++num_events_;
    switch (worker.request.kind) {
      case kPull:
        worker.wants_parameters = true;
        return;  // the request is answered later, and only then is the next one awaited
      case kPush:
        take_push(w);
        break;
      case kLeave:
        worker.left = true;
        ++num_left_;
        return;
      default:
        TRIREME_CHECK(false, "an unknown request to a parameter server");
    }
    listen(w);
  }

  void take_push(int w) {
    Worker& worker = workers_[size_t(w)];
    group_.recv(tensor_of(std::span<const float>(gradient_)), rank_of(w), kDataTag, site_);
    worker.num_pushes = worker.request.num_pushes;
    if (is_dismissed_) return;
    update_(parameters_, {gradient_, begin_, worker.request.values});
    ++version_;
  }

  bool may_read(const Worker& reader) const {
    for (const Worker& worker : workers_) {
      if (!worker.left && worker.num_pushes + options_.staleness < reader.request.num_pushes) {
        return false;
      }
    }
    return true;
  }

  void answer(int w) {
    Worker& worker = workers_[size_t(w)];
    if (!worker.wants_parameters || !(is_dismissed_ || may_read(worker))) return;
    ++num_events_;
    int64_t version = is_dismissed_ ? ParameterWorker::kDismissed : version_;
    group_.send(tensor_of(version), rank_of(w), kRequestTag, site_);
    if (!is_dismissed_) group_.send(tensor_of(parameters_), rank_of(w), kDataTag, site_);
    worker.wants_parameters = false;
    listen(w);
  }

  Group& group_;
  const ParameterServerOptions options_;
  std::span<float> parameters_;
  std::vector<float> gradient_;  // the gradient that is being applied
  const ServerUpdate update_;
  CallSite site_;
  int64_t begin_;
  std::vector<Worker> workers_;
  int64_t version_ = 0;
  int64_t num_events_ = 0;
  int num_left_ = 0;
  bool is_dismissed_ = false;
};

ParameterServer::ParameterServer(Group& group, const ParameterServerOptions& options,
                                 std::span<float> parameters, ServerUpdate update, CallSite site) {
  TRIREME_CHECK(group.rank() < options.num_servers && options.num_servers <= group.size(),
                "only ranks below num_servers serve");
  TRIREME_CHECK(int64_t(parameters.size()) ==
                    balanced_count(options.num_elements, options.num_servers, group.rank()),
                "a server keeps its balanced part of the parameters");
  impl_ = std::make_unique<Impl>(group, options, parameters, std::move(update), site);
}
ParameterServer::~ParameterServer() = default;
int64_t ParameterServer::serve(int64_t num_updates) { return impl_->serve(num_updates); }
void ParameterServer::dismiss() { impl_->dismiss(); }

ParameterWorker::ParameterWorker(Group& group, const ParameterServerOptions& options)
    : group_(group), options_(options) {
  TRIREME_CHECK(group.rank() >= options.num_servers, "ranks below num_servers serve");
}

ParameterWorker::~ParameterWorker() {
  if (left_ || std::uncaught_exceptions() > 0) return;
  try {
    leave();
  } catch (...) {  // all ranks are aborted: the next wait reports the cause
  }
}

int64_t ParameterWorker::pull(std::span<float> parameters, CallSite site) {
  Request request{kPull, num_pushes_, {}};
  for (int s = 0; s < options_.num_servers; ++s)
    group_.send(tensor_of(request), s, kRequestTag, site);
  int64_t lowest = -1;
  for (int s = 0; s < options_.num_servers; ++s) {
    int64_t version = 0;
    group_.recv(tensor_of(version), s, kRequestTag, site);
    lowest = s == 0 ? version : std::min(lowest, version);
    if (version == kDismissed) continue;
    const int64_t begin = balanced_begin(options_.num_elements, options_.num_servers, s);
    const int64_t count = balanced_count(options_.num_elements, options_.num_servers, s);
    group_.recv(tensor_of(parameters.subspan(size_t(begin), size_t(count))), s, kDataTag, site);
  }
  return lowest;
}

void ParameterWorker::push(std::span<const float> gradient, const PushValues& values,
                           CallSite site) {
  Request request{kPush, ++num_pushes_, values};
  for (int s = 0; s < options_.num_servers; ++s) {
    const int64_t begin = balanced_begin(options_.num_elements, options_.num_servers, s);
    const int64_t count = balanced_count(options_.num_elements, options_.num_servers, s);
    group_.send(tensor_of(request), s, kRequestTag, site);
    group_.send(tensor_of(gradient.subspan(size_t(begin), size_t(count))), s, kDataTag, site);
  }
}

void ParameterWorker::leave(CallSite site) {
  left_ = true;
  Request request{kLeave, num_pushes_, {}};
  for (int s = 0; s < options_.num_servers; ++s)
    group_.send(tensor_of(request), s, kRequestTag, site);
}

}  // namespace trireme
