/* Faults of disks and clocks for the processes that preload this, switched by files in $SOAK_FAULTS.

   armed            nothing else is looked at while this is missing
   NAME.enospc      writes to the databases of agent NAME (or of "controller") fail: no space
   NAME.eio         their fsync and fdatasync fail: input/output error
   NAME.slow        their fsync and fdatasync take as many milliseconds longer as the file says
   clock.PID        the wall clock of this process is ahead by as many seconds as the file says
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *folder(void) {
    static const char *found;
    if (!found) found = getenv("SOAK_FAULTS");
    return found && *found ? found : NULL;
}

static int is_there(const char *name) {
    char path[PATH_MAX];
    if (!folder()) return 0;
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* The number in a switch's file, 0 without one. */
static long number_in(const char *name) {
    char path[PATH_MAX], text[32] = "";
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    long got = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    return got > 0 ? atol(text) : 0;
}

/* Whose database `fd` is, into `name`; 0: it is none. */
static int whose(int fd, char *name, size_t size) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (!strstr(path, ".sqlite")) return 0;
    const char *agents = strstr(path, "/agents/");
    if (!agents) {
        snprintf(name, size, "controller");
        return 1;
    }
    const char *begin = agents + strlen("/agents/"), *end = strchr(begin, '/');
    if (!end || (size_t)(end - begin) >= size) return 0;
    memcpy(name, begin, end - begin);
    name[end - begin] = 0;
    return 1;
}

static int struck(int fd, const char *how, char *name, size_t size) {
    char owner[64];
    int saved = errno, found = 0;
    if (is_there("armed") && whose(fd, owner, sizeof owner)) {
        snprintf(name, size, "%s.%s", owner, how);
        found = is_there(name);
    }
    errno = saved;
    return found;
}

#define NEXT(type, name) static type next; if (!next) next = (type)dlsym(RTLD_NEXT, name)
#define NO_SPACE(fd) char name[96]; if (struck(fd, "enospc", name, sizeof name)) { errno = ENOSPC; return -1; }

typedef ssize_t (*write_t)(int, const void *, size_t);
typedef ssize_t (*pwrite_t)(int, const void *, size_t, off_t);
typedef ssize_t (*writev_t)(int, const struct iovec *, int);
typedef int (*sync_t)(int);
typedef int (*gettime_t)(clockid_t, struct timespec *);
typedef int (*gettimeofday_t)(struct timeval *, void *);

ssize_t write(int fd, const void *data, size_t size) {
    NEXT(write_t, "write");
    NO_SPACE(fd)
    return next(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    NEXT(pwrite_t, "pwrite");
    NO_SPACE(fd)
    return next(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    NEXT(pwrite_t, "pwrite64");
    NO_SPACE(fd)
    return next(fd, data, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    NEXT(writev_t, "writev");
    NO_SPACE(fd)
    return next(fd, parts, count);
}

static int sync_by(sync_t next, int fd) {
    char name[96];
    if (struck(fd, "slow", name, sizeof name)) usleep(1000 * number_in(name));
    if (struck(fd, "eio", name, sizeof name)) {
        errno = EIO;
        return -1;
    }
    return next(fd);
}

int fsync(int fd) {
    NEXT(sync_t, "fsync");
    return sync_by(next, fd);
}

int fdatasync(int fd) {
    NEXT(sync_t, "fdatasync");
    return sync_by(next, fd);
}

static long ahead_s(void) {
    char name[64];
    int saved = errno;
    long seconds = 0;
    if (is_there("armed")) {
        snprintf(name, sizeof name, "clock.%d", (int)getpid());
        seconds = number_in(name);
    }
    errno = saved;
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    NEXT(gettime_t, "clock_gettime");
    int status = next(clock, at);
    if (!status && clock == CLOCK_REALTIME) at->tv_sec += ahead_s();
    return status;
}

int gettimeofday(struct timeval *at, void *zone) {
    NEXT(gettimeofday_t, "gettimeofday");
    int status = next(at, zone);
    if (!status) at->tv_sec += ahead_s();
    return status;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
