#include "faulty_calls.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <new>
#include <string_view>

namespace {

using trireme::DiskState;
using trireme::NetState;

// Set once in the process of a server, before it has other threads.
trireme::ServerFaults* mine = nullptr;
std::string my_folder;
dev_t my_disk = 0;
int my_port = 0;

template <typename... Args>
long call(long number, Args... args) {
  return ::syscall(number, args...);
}

bool fails(int error) {
  ++mine->num_hit;
  errno = error;
  return true;
}

bool is_on_my_disk(int fd) {
  struct stat info = {};
  return mine != nullptr && ::fstat(fd, &info) == 0 && info.st_dev == my_disk &&
         (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

bool is_broken(int fd) { return is_on_my_disk(fd) && mine->disk == DiskState::Fails && fails(EIO); }

bool is_broken(const char* path) {
  return mine != nullptr && mine->disk == DiskState::Fails &&
         std::string_view(path).starts_with(my_folder + "/") && fails(EIO);
}

// Returns how many bytes a write may write, of which -1 means that it fails.
ssize_t allowed(int fd, size_t size) {
  if (!is_on_my_disk(fd)) return ssize_t(size);
  if (is_broken(fd)) return -1;
  if (mine->disk == DiskState::Full) {
    return fails(ENOSPC) && size < 2 ? -1 : ssize_t(size / 2);
  }
  const bool is_torn = mine->torn_write > 0 && --mine->torn_write == 0;
  return is_torn ? -2 : ssize_t(size);
}

template <typename Write>
ssize_t write_with(int fd, size_t size, const Write& write) {
  const ssize_t most = allowed(fd, size);
  if (most == -2) {
    write(size / 2);
    ++mine->num_hit;
    ::raise(SIGKILL);
  }
  return most < 0 ? -1 : write(size_t(most));
}

// Servers connect from this address, and clients do not.
constexpr in_addr_t kServers = 0x7ffffffe;  // 127.255.255.254

using AddressOf = int (*)(int, sockaddr*, socklen_t*);
sockaddr_in address_by(AddressOf address_of, int fd) {
  sockaddr_in address = {};
  socklen_t length = sizeof address;
  const int failed = address_of(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return failed != 0 ? sockaddr_in{} : address;
}

void connect_as_server(int fd) {
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(kServers);
  if (mine != nullptr) ::bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from);
}

// Returns true if nothing comes through this socket now, after a pause, because callers try again.
bool is_cut(int fd) {
  if (mine == nullptr || mine->net == NetState::Works) return false;
  const sockaddr_in address = address_by(&::getsockname, fd);
  if (address.sin_family != AF_INET) return false;
  const sockaddr_in peer = address_by(&::getpeername, fd);
  const bool is_at_my_port = ntohs(address.sin_port) == my_port;
  // It listens, and does not know yet who comes.
  if (mine->net != NetState::Cut && is_at_my_port && peer.sin_family != AF_INET) return false;
  const bool is_of_client = is_at_my_port && peer.sin_addr.s_addr != htonl(kServers);
  if (mine->net == NetState::NoClients && !is_of_client) return false;
  if (mine->net == NetState::NoServers && is_of_client) return false;
  ::usleep(2000);
  return fails(EAGAIN);
}

}  // namespace

namespace trireme {

ServerFaults* share_faults(int num_servers) {
  void* const memory = ::mmap(nullptr, sizeof(ServerFaults) * size_t(num_servers),
                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::abort();
  return new (memory) ServerFaults[size_t(num_servers)];
}

void suffer(ServerFaults& faults, const std::string& folder, int port_for_clients) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) ::abort();
  my_folder = folder;
  my_disk = info.st_dev;
  my_port = port_for_clients;
  mine = &faults;
}

}  // namespace trireme

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  return write_with(fd, size, [&](size_t most) { return call(SYS_write, fd, data, most); });
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return write_with(fd, size,
                    [&](size_t most) { return call(SYS_pwrite64, fd, data, most, offset); });
}

ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) {
  return pwrite(fd, data, size, offset);
}

ssize_t read(int fd, void* data, size_t size) {
  return is_broken(fd) ? -1 : call(SYS_read, fd, data, size);
}

ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  return is_broken(fd) ? -1 : call(SYS_pread64, fd, data, size, offset);
}

ssize_t pread64(int fd, void* data, size_t size, off_t offset) {
  return pread(fd, data, size, offset);
}

// Fortified callers use these.
ssize_t __read_chk(int fd, void* data, size_t size, size_t) { return read(fd, data, size); }
ssize_t __pread_chk(int fd, void* data, size_t size, off_t offset, size_t) {
  return pread(fd, data, size, offset);
}
ssize_t __recv_chk(int fd, void* data, size_t size, size_t, int flags) {
  return recv(fd, data, size, flags);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return is_broken(path) ? -1 : int(call(SYS_openat, AT_FDCWD, path, flags, mode));
}

int fsync(int fd) { return is_broken(fd) ? -1 : int(call(SYS_fsync, fd)); }
int fdatasync(int fd) { return is_broken(fd) ? -1 : int(call(SYS_fdatasync, fd)); }

int ftruncate(int fd, off_t size) noexcept {
  return is_broken(fd) ? -1 : int(call(SYS_ftruncate, fd, size));
}

int rename(const char* from, const char* to) noexcept {
  return is_broken(to) ? -1 : int(call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return is_broken(path) ? -1 : int(call(SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char* path) noexcept {
  return is_broken(path) ? -1 : int(call(SYS_unlinkat, AT_FDCWD, path, 0));
}

ssize_t send(int fd, const void* data, size_t size, int flags) {
  return is_cut(fd) ? -1 : call(SYS_sendto, fd, data, size, flags, nullptr, 0);
}

ssize_t recv(int fd, void* data, size_t size, int flags) {
  return is_cut(fd) ? -1 : call(SYS_recvfrom, fd, data, size, flags, nullptr, nullptr);
}

int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return is_cut(fd) ? -1 : int(call(SYS_accept4, fd, address, length, flags));
}

int connect(int fd, const sockaddr* address, socklen_t length) {
  if (is_cut(fd)) {
    errno = ETIMEDOUT;
    return -1;
  }
  connect_as_server(fd);
  return int(call(SYS_connect, fd, address, length));
}
}
