#include "agent/job_hosts.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

int JobHosts::index_of(const std::string& name) const {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const Member& member) {
    return member.host->name() == name;
  });
  return found == hosts_.end() ? -1 : int(found - hosts_.begin());
}

void JobHosts::add(std::unique_ptr<RankHost> host, int slots) {
  const int index = index_of(host->name());
  if (index < 0) {
    hosts_.push_back({std::move(host), slots});
  } else {
    hosts_[size_t(index)] = {std::move(host), slots};
  }
}

void JobHosts::open(Reception reception, AgentWelcome welcome, int slots_of_unknown) {
  reception_.emplace(std::move(reception));
  welcome_ = std::move(welcome);
  slots_of_unknown_ = slots_of_unknown;
}

void JobHosts::expect(const std::string& name, int slots) { expected_.push_back({name, slots}); }

Status JobHosts::start_shells(RemoteShells::Options options) {
  shells_.emplace(std::move(options));
  for (const Expected& host : expected_) TRIREME_TRY_DONE(shells_->start(host.name));
  return Done{};
}

void JobHosts::sort() {
  const auto place = [&](const Member& member) {
    const auto found = std::find_if(
        expected_.begin(), expected_.end(),
        [&](const Expected& expected) { return expected.name == member.host->name(); });
    return std::pair(found - expected_.begin(), member.host->name());
  };
  std::stable_sort(hosts_.begin(), hosts_.end(),
                   [&](const Member& a, const Member& b) { return place(a) < place(b); });
}

std::vector<std::string> JobHosts::missing() const {
  std::vector<std::string> names;
  for (const Expected& expected : expected_) {
    if (index_of(expected.name) < 0) names.push_back(expected.name);
  }
  return names;
}

void JobHosts::greet(const TcpLog& log) {
  const auto judge = [](const Hello& hello) {
    return hello.purpose == Purpose::Agent ? Verdict::Welcome : Verdict::WrongRank;
  };
  Result<std::vector<Reception::Visitor>> visitors = reception_->receive({}, judge, 0);
  if (!visitors.ok()) {
    if (log) log(visitors.error().message);
    return;
  }
  for (Reception::Visitor& visitor : *visitors) {
    unknown_.push_back(std::make_unique<RemoteHost>(std::move(visitor.socket), welcome_, page_));
  }
}

void JobHosts::receive(const TcpLog& log) {
  if (!reception_) return;
  if (shells_) shells_->look(log);
  greet(log);
  for (std::unique_ptr<RemoteHost>& host : unknown_) {
    (void)host->take_news();  // it has no processes yet
    if (host->is_lost()) {
      host = nullptr;
    } else if (host->is_known() && is_free(host->name())) {
      admit(std::move(host));
    }
  }
  std::erase(unknown_, nullptr);
  for (Member& member : hosts_) {
    member.is_drained = member.is_drained || member.host->wants_out();
  }
}

// An agent may come back before the leader has noticed that it was lost. It waits until then,
// because its former ranks count as alive.
bool JobHosts::is_free(const std::string& name) const {
  const int index = index_of(name);
  return index < 0 || at(index).is_lost();
}

void JobHosts::admit(std::unique_ptr<RemoteHost> host) {
  const auto expected =
      std::find_if(expected_.begin(), expected_.end(),
                   [&](const Expected& other) { return other.name == host->name(); });
  const int usual = expected == expected_.end() ? slots_of_unknown_ : expected->slots;
  const int slots = host->slots() > 0 ? host->slots() : usual;
  host->share_page();
  add(std::move(host), slots);
}

bool JobHosts::is_usable(int index) const {
  const Member& member = hosts_[size_t(index)];
  return !member.is_drained && !member.host->is_lost();
}

std::vector<int> JobHosts::slots() const {
  std::vector<int> slots;
  for (int i = 0; i < size(); ++i) slots.push_back(is_usable(i) ? hosts_[size_t(i)].slots : 0);
  return slots;
}

int64_t JobHosts::num_slots() const {
  int64_t sum = 0;
  for (const int slots : slots()) sum += slots;
  return sum;
}

bool JobHosts::drain(const std::string& name) {
  const int index = index_of(name);
  if (index < 0) return false;
  hosts_[size_t(index)].is_drained = true;
  return true;
}

void JobHosts::share_page() const {
  for (const Member& member : hosts_) member.host->share_page();
}

void JobHosts::add_descriptors(std::vector<pollfd>& entries) const {
  for (const Member& member : hosts_) member.host->add_descriptors(entries);
  for (const auto& host : unknown_) host->add_descriptors(entries);
}

std::vector<JobStatus::Host> JobHosts::status(const std::vector<int>& hosts_of_ranks) const {
  std::vector<JobStatus::Host> hosts;
  for (int i = 0; i < size(); ++i) {
    const Member& member = hosts_[size_t(i)];
    const bool has_ranks =
        std::find(hosts_of_ranks.begin(), hosts_of_ranks.end(), i) != hosts_of_ranks.end();
    const char* const state = member.host->is_lost() ? "gone"
                              : member.is_drained    ? "drained"
                              : has_ranks            ? "in use"
                                                     : "spare";
    hosts.push_back({member.host->name(), state, member.slots});
  }
  return hosts;
}

}  // namespace trireme
