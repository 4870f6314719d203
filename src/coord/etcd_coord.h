#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "coord/coord.h"

namespace trireme {

// A Coord in etcd (version 3.4 or later), through its JSON gateway. Its keys begin with
// trireme/JOB/. etcd counts leases in whole seconds, so they are rounded up.
class EtcdCoord : public Coord {
 public:
  // `address`: HOST:PORT. The constructor sends nothing.
  EtcdCoord(std::string address, const std::string& job)
      : address_(std::move(address)), prefix_("trireme/" + job + "/") {}
  std::string name() const override { return "etcd:" + address_; }

  Result<CoordEntry> get(const std::string& key, Deadline deadline) override;
  Result<std::vector<CoordEntry>> list(const std::string& prefix, Deadline deadline) override;
  Result<CoordSwap> compare_and_swap(const CoordWrite& write, Deadline deadline) override;
  Result<LeaseId> grant(double seconds, Deadline deadline) override;
  Result<bool> keep_alive(LeaseId lease, Deadline deadline) override;
  Status revoke(LeaseId lease, Deadline deadline) override;

 private:
  // Sends a question and returns the JSON of the answer. If etcd says that the lease does not exist
  // and `is_ended` is not null, sets it and returns an empty object.
  Result<nlohmann::json> ask(const std::string& path, const nlohmann::json& question,
                             Deadline deadline, bool* is_ended = nullptr) const;
  std::string encoded(const std::string& key) const;
  Result<CoordEntry> entry_of(const nlohmann::json& kv) const;
  Error strange(const std::string& path, const std::string& what) const;

  std::string address_;
  std::string prefix_;
};

}  // namespace trireme
