#pragma once

#include <atomic>
#include <string>

// faulty_calls.cc replaces calls of the C library to disks and sockets, in the whole binary, so
// that they fail in the process of a server as another process says.
namespace trireme {

enum class DiskState {
  Works,
  Fails,  // every call reports EIO
  Full,   // half of a write succeeds, then ENOSPC
};

// Nothing comes through a cut connection, in either direction, and it hangs. It works again later.
enum class NetState {
  Works,
  NoClients,  // only those of clients are cut
  NoServers,  // all others are cut: those between servers
  Cut,        // all
};

// What goes wrong in the process of a server now. It lies in memory that processes share.
struct ServerFaults {
  std::atomic<DiskState> disk = DiskState::Works;
  std::atomic<NetState> net = NetState::Works;
  // If above 0, the process is killed in the middle of the write with this number from now on.
  std::atomic<int> torn_write = 0;
  std::atomic<int> num_hit = 0;  // calls that were made to fail
};

// Returns faults of so many servers, in memory that is shared with processes that are forked.
ServerFaults* share_faults(int num_servers);

// From now on, the calls of this process suffer `faults`: those to files on the disk of `folder`,
// and those to sockets.
void suffer(ServerFaults& faults, const std::string& folder, int port_for_clients);

}  // namespace trireme
