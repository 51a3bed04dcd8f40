/* A disk that fails on demand: preloaded into a process, it lets write, sync and truncate of chosen files fail or hang.
 *
 * bad_disk_set(slot, part, error, what): files whose path contains `part` (NULL: none) answer `error` (0: they hang).
 * bad_disk_unsynced(part): how many bytes of such files were written and not synced with success since.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, SLOTS = 32, FILES = 256, LENGTH = 512 };

static struct { char part[LENGTH]; int error; volatile int what; } slots[SLOTS];
static struct { char path[LENGTH]; long unsynced; } files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void bad_disk_set(int slot, const char *part, int error, int what) {
    slots[slot].what = 0;
    if (part) {
        snprintf(slots[slot].part, LENGTH, "%s", part);
        slots[slot].error = error;
        slots[slot].what = what;
    }
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, LENGTH - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0 && strstr(path, ".db") != NULL;
}

static int fails(const char *path, int what) {
    for (int slot = 0; slot < SLOTS; slot++)
        if ((slots[slot].what & what) && strstr(path, slots[slot].part)) {
            while (!slots[slot].error && (slots[slot].what & what)) usleep(1000);
            if (!slots[slot].error || !slots[slot].what) return 0;
            errno = slots[slot].error;
            return 1;
        }
    return 0;
}

static void note(const char *path, long written) { /* written < 0: synced */
    pthread_mutex_lock(&lock);
    for (int file = 0; file < FILES; file++)
        if (!files[file].path[0] || !strcmp(files[file].path, path)) {
            snprintf(files[file].path, LENGTH, "%s", path);
            files[file].unsynced = written < 0 ? 0 : files[file].unsynced + written;
            break;
        }
    pthread_mutex_unlock(&lock);
}

long bad_disk_unsynced(const char *part) {
    long sum = 0;
    pthread_mutex_lock(&lock);
    for (int file = 0; file < FILES; file++)
        if (strstr(files[file].path, part)) sum += files[file].unsynced;
    pthread_mutex_unlock(&lock);
    return sum;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define WRITER(name, parameters, arguments)                 \
    ssize_t name parameters {                               \
        REAL(name);                                         \
        char path[LENGTH];                                  \
        if (!path_of(fd, path)) return real arguments;      \
        if (fails(path, WRITE)) return -1;                  \
        ssize_t done = real arguments;                      \
        if (done > 0) note(path, done);                     \
        return done;                                        \
    }
WRITER(write, (int fd, const void *data, size_t size), (fd, data, size))
WRITER(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITER(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))

#define SYNCER(name)                                        \
    int name(int fd) {                                      \
        REAL(name);                                         \
        char path[LENGTH];                                  \
        if (!path_of(fd, path)) return real(fd);            \
        if (fails(path, SYNC)) return -1;                   \
        int done = real(fd);                                \
        if (!done) note(path, -1);                          \
        return done;                                        \
    }
SYNCER(fsync)
SYNCER(fdatasync)
