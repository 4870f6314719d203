#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Temporary files and folders lie beside what they will become, as NAME.tmp-PID. Their writer holds
// a lock (flock) on them, which ends with its process, however that ends. What has such a name and
// no lock is a leftover. A process number alone would not say so: numbers are used again, and other
// hosts have their own.

// "NAME.tmp-" and the number of this process.
std::string temporary_name(const std::string& path);
// True for names like "NAME.tmp-4711", "NAME.tmp-4711.2" and "NAME.tmp-4711-old".
bool is_temporary_name(std::string_view name);

// Makes a file beside `target` that nobody else has, under a name as above, locked and open with
// `access` (O_RDWR, ...). Follows no link and empties no file. Returns its descriptor and fills
// `path`, or returns -1 with errno.
int create_temporary(const std::string& target, int access, int mode, std::string& path);

// Locks the open file or folder that was just made as `path`. False if a sweep has removed it
// before the lock was taken: make it again. True where the file system has no locks.
bool take_ownership(int fd, const std::string& path);
// True if `path` still names the file that `fd` refers to.
bool is_still_at(int fd, const std::string& path);

// Removes the file or folder if nobody holds its lock. Leaves it where this cannot be told.
bool remove_leftover(const std::string& path);
// Removes the leftovers in `folder` itself, not below it, and returns their paths.
std::vector<std::string> remove_leftovers(const std::string& folder);
// Removes the leftovers of former writers of `path` alone.
void remove_leftovers_of(const std::string& path);

}  // namespace trireme
