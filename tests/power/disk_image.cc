#include "disk_image.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <utility>

#include "base/hash.h"

namespace trireme {
namespace {

// A longer interval than any test: the kernel writes nothing by itself.
constexpr const char* kMountOptions = "mount -o loop,commit=300,noatime ";
constexpr off_t kImageBytes = off_t{6} << 20;

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Mounts are seen by this process and its children only, and end with them.
bool mounts_alone() {
  static const bool is_alone = ::unshare(CLONE_NEWNS) == 0 &&
                               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return is_alone;
}

bool copy_bytes(const std::string& from, const std::string& to) {
  const int in = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  off_t at = 0;
  while (in >= 0 && out >= 0 && at < kImageBytes) {
    if (::sendfile(out, in, &at, size_t(kImageBytes - at)) <= 0) break;
  }
  if (in >= 0) ::close(in);
  if (out >= 0) ::close(out);
  return at == kImageBytes;
}

}  // namespace

DiskImage::DiskImage(std::string folder) : folder_(std::move(folder)) {
  ::mkdir(folder_.c_str(), 0700);
  ::mkdir(disk().c_str(), 0700);
  ::mkdir(copy().c_str(), 0700);
}

DiskImage::~DiskImage() {
  unmount();
  for (const char* name : {"/image", "/copied"}) ::unlink((folder_ + name).c_str());
  for (const std::string& path : {disk(), copy(), folder_}) ::rmdir(path.c_str());
}

std::string DiskImage::mount() {
  if (::geteuid() != 0 || !mounts_alone()) return "only root may mount an image";
  const std::string image = folder_ + "/image";
  const int fd = ::open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool has_size = fd >= 0 && ::ftruncate(fd, kImageBytes) == 0;
  if (fd >= 0) ::close(fd);
  if (!has_size || !succeeds("mkfs.ext4 -q -F -b 1024 -J size=1 " + image)) {
    return "mkfs.ext4 is missing or fails";
  }
  is_mounted_ = succeeds(kMountOptions + image + " " + disk());
  return is_mounted_ ? "" : "an image cannot be mounted here";
}

void DiskImage::unmount() {
  if (is_mounted_) ::umount2(disk().c_str(), 0);
  is_mounted_ = false;
}

void DiskImage::write_back(Writeback writeback) const {
  if (writeback == Writeback::None) return;
  const int fd =
      ::open((disk() + "/other").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const bool is_written = ::write(fd, "x", 1) == 1 &&
                          ::syscall(writeback == Writeback::All ? SYS_syncfs : SYS_fsync, fd) == 0;
  if (!is_written) ::abort();  // the disk is too small for the test
  ::close(fd);
}

uint64_t DiskImage::checksum() const {
  const int fd = ::open((folder_ + "/image").c_str(), O_RDONLY | O_CLOEXEC);
  void* const bytes =
      ::mmap(nullptr, size_t{kImageBytes}, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (bytes == MAP_FAILED) ::abort();
  const uint64_t checksum =
      hash64(std::span(static_cast<const std::byte*>(bytes), size_t{kImageBytes}));
  ::munmap(bytes, size_t{kImageBytes});
  ::close(fd);
  return checksum;
}

bool DiskImage::copy_image() const { return copy_bytes(folder_ + "/image", folder_ + "/copied"); }

bool DiskImage::mount_copied() const {
  return succeeds(kMountOptions + folder_ + "/copied " + copy());
}

void DiskImage::unmount_copy() const { ::umount2(copy().c_str(), 0); }

}  // namespace trireme
