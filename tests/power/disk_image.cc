#include "disk_image.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace trireme {
namespace {

// A longer interval than any test: the kernel writes nothing by itself.
constexpr const char* kMountOptions = "mount -o loop,commit=300,noatime ";
constexpr off_t kImageBytes = off_t{6} << 20;

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

bool copy_image(const std::string& from, const std::string& to) {
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
  if (::geteuid() != 0) return "only root may mount an image";
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

bool DiskImage::mount_copy() {
  const std::string copied = folder_ + "/copied";
  return copy_image(folder_ + "/image", copied) && succeeds(kMountOptions + copied + " " + copy());
}

void DiskImage::unmount_copy() { ::umount2(copy().c_str(), 0); }

}  // namespace trireme
