#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The kernel may write anything at any time, so this much reaches the disk beside the syncs of the
// code that is tested.
enum class Writeback {
  None,     // nothing
  Journal,  // another program syncs a file: all names and sizes, but not the data of other files
  All,      // everything
};

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

  void write_back(Writeback writeback) const;
  // Returns the checksum of what has reached the disk.
  uint64_t checksum() const;

  // Copies the image as it is now, or mounts such a copy, whose journal is replayed as after a
  // power cut. Each returns false if that fails.
  bool copy_image() const;
  bool mount_copied() const;
  bool mount_copy() const { return copy_image() && mount_copied(); }
  void unmount_copy() const;
  std::string copy() const { return folder_ + "/copy"; }

 private:
  std::string folder_;
  bool is_mounted_ = false;
};

}  // namespace trireme
