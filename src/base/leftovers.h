#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Temporary files and folders lie beside the file that they will become, with the name
// NAME.tmp-PID. Their writer holds a lock (flock) on them, which ends with its process, however
// that ends. A file with such a name and without a lock is a leftover. The process number is not
// enough to tell, because numbers are reused and other hosts have their own.

// Returns "NAME.tmp-" and the number of this process.
std::string temporary_name(const std::string& path);
// True for names like "NAME.tmp-4711", "NAME.tmp-4711.2" and "NAME.tmp-4711-old".
bool is_temporary_name(std::string_view name);

// Makes a new file beside `target` with a temporary name, locked and open with `access` (O_RDWR,
// ...). It follows no link and truncates no file. Returns its descriptor and sets `path`, or
// returns -1 with errno.
int create_temporary(const std::string& target, int access, int mode, std::string& path);

// Locks the open file or folder that was just made as `path`. Returns false if a sweep has removed
// it before it was locked; then make it again. Returns true if the file system has no locks.
bool take_ownership(int fd, const std::string& path);
// True if `path` still names the file that `fd` refers to.
bool is_still_at(int fd, const std::string& path);

// Removes the file or folder if nobody holds its lock. Leaves it if that is unknown.
bool remove_leftover(const std::string& path);
// Removes the leftovers directly in `folder` and returns their paths.
std::vector<std::string> remove_leftovers(const std::string& folder);
// Removes only the leftovers of earlier writers of `path`.
void remove_leftovers_of(const std::string& path);

}  // namespace trireme
