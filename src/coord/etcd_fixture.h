#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "comm/tcp/socket.h"
#include "coord/etcd_coord.h"

namespace trireme {

// Runs an etcd in a temporary folder, on free ports of the loopback interface. The etcd ends with
// this object, and also if the test is killed.
class EtcdServer {
 public:
  EtcdServer() {
    // Both are open at the same time, so the ports differ.
    Result<Socket> client = listen_at("127.0.0.1:0"), peer = listen_at("127.0.0.1:0");
    address_ = own_address(*client);
    peer_ = "http://" + own_address(*peer);
    folder_ = std::filesystem::temp_directory_path() / ("etcd_" + std::to_string(::getpid()));
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;
  ~EtcdServer() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  // Returns false if etcd is not installed or does not answer in time.
  bool start() {
    std::filesystem::create_directories(folder_);
    process_ = ::fork();
    if (process_ == 0) become_etcd();
    EtcdCoord coord(address_, "start");
    for (int attempt = 0; attempt < 400; ++attempt) {
      if (coord.get("key", Deadline::after(0.2)).ok()) return true;
      if (::waitpid(process_, nullptr, WNOHANG) == process_) {
        process_ = -1;
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    return false;
  }

  const std::string& address() const { return address_; }
  pid_t process() const { return process_; }

 private:
  [[noreturn]] void become_etcd() const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = ::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(log, 1);
    ::dup2(log, 2);
    const std::string client = "http://" + address_;
    const std::string data = (folder_ / "data").string(), cluster = "default=" + peer_;
    // etcd allows leases of one second only with a quick heartbeat.
    ::execlp("etcd", "etcd", "--data-dir", data.c_str(), "--listen-client-urls", client.c_str(),
             "--advertise-client-urls", client.c_str(), "--listen-peer-urls", peer_.c_str(),
             "--initial-advertise-peer-urls", peer_.c_str(), "--initial-cluster", cluster.c_str(),
             "--heartbeat-interval", "20", "--election-timeout", "200",
             static_cast<char*>(nullptr));
    ::_exit(127);
  }

  std::string address_;
  std::string peer_;
  std::filesystem::path folder_;
  pid_t process_ = -1;
};

}  // namespace trireme
