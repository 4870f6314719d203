#pragma once

#include <string>

namespace trireme {

// A small ext4 file system in an image file. What the kernel has not yet written to the image is
// what a power cut loses.
class DiskImage {
 public:
  explicit DiskImage(std::string folder);  // an empty folder of its own
  ~DiskImage();
  DiskImage(const DiskImage&) = delete;
  DiskImage& operator=(const DiskImage&) = delete;

  // Makes and mounts the file system. Returns why that is impossible here, or "".
  std::string mount();
  void unmount();
  std::string disk() const { return folder_ + "/disk"; }

  // Copies the image as it is now and mounts the copy, whose journal is replayed as after a power
  // cut. Returns false if that fails.
  bool mount_copy();
  void unmount_copy();
  std::string copy() const { return folder_ + "/copy"; }

 private:
  std::string folder_;
  bool is_mounted_ = false;
};

}  // namespace trireme
