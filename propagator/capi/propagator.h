/* The C interface: a trained run as a function inside another program.
 *
 *   pg_run *run = NULL;
 *   if (pg_open("runs/demo", NULL, &run) != PG_OK) puts(pg_last_error());
 *   status = pg_apply(run, inputs, 2, outputs, 1);
 *   pg_close(run);
 *
 * C99. Link with -lpropagator. No call prints, exits or throws, and each puts
 * the calling thread's OpenMP thread count and floating-point environment
 * (flags, traps, rounding) back; none touches a signal handler. Every call may
 * be made from any thread, for one run from several at once.
 *
 * A null pointer where none is allowed, a handle that was closed and a shape
 * that does not fit are errors with a message. A pointer to memory that is
 * shorter than its shape says cannot be found out. */
#ifndef PROPAGATOR_CAPI_PROPAGATOR_H
#define PROPAGATOR_CAPI_PROPAGATOR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PG_API __attribute__((visibility("default")))
#else
#define PG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns; the same numbers as the program's exit codes. */
typedef enum pg_status {
  PG_OK = 0,
  PG_FAILURE = 1,   /* the world failed us: a missing run, disk, permissions */
  PG_USAGE = 2,     /* the caller's mistake: argument, name, shape, type */
  PG_DATA = 3,      /* a damaged run */
  PG_NUMERICAL = 4, /* an answer is not finite */
  PG_DEVICE = 5     /* out of memory, or a device that is not there */
} pg_status;

/* Of the numbers of a tensor; 0 is none of them. */
typedef enum pg_type {
  PG_FLOAT32 = 1,
  PG_FLOAT64 = 2,
  PG_INT32 = 3, /* 32 and 64 bits of integers: of inputs alone */
  PG_INT64 = 4
} pg_type;

/* Where a tensor's memory is. */
typedef enum pg_device { PG_CPU = 0, PG_CUDA = 1 } pg_device;

#define PG_MAX_RANK 8

/* A trained run, open. */
typedef struct pg_run pg_run;

/* How a run is opened. `size` tells the library which fields the program knows,
 * so that later versions can have more: begin with PG_OPTIONS. */
typedef struct pg_options {
  size_t size;           /* sizeof(pg_options) */
  const char* device;    /* "cpu", "cuda", "cuda:1", "auto"; NULL: the run's */
  const char* precision; /* "fp64", "fp32", "tf32", "bf16"; NULL: the run's */
  int64_t threads;       /* CPU threads of a call; 0: as many as OpenMP would
                            start in the thread that calls */
} pg_options;
#define PG_OPTIONS \
  { sizeof(pg_options), NULL, NULL, 0 }

/* An array of the caller's. `strides[k]` is how many elements lie between two
 * neighbours along axis k, 0 or more; NULL: row-major, without gaps. Where type
 * and device are the model's own an array is read and written in place,
 * whatever its strides. Inputs are never written to. */
typedef struct pg_tensor {
  const char* name;
  void* data;
  const int64_t* shape;
  const int64_t* strides;
  int32_t rank;         /* 0 to PG_MAX_RANK */
  int32_t type;         /* pg_type */
  int32_t device;       /* pg_device */
  int32_t device_index; /* of several GPUs; 0 on the CPU */
} pg_tensor;

/* What a model takes or gives under a name. -1 stands for any length. */
typedef struct pg_port {
  const char* name;
  const char* meaning;
  const int64_t* shape;
  int32_t rank;
} pg_port;

/* "0.1.0 c5750ba090ac": the version, and the commit where it is known. */
PG_API const char* pg_version(void);

/* Why the last call of this thread failed, with a line "hint: ..." where there
 * is advice; "" if it succeeded. Valid until this thread's next call. */
PG_API const char* pg_last_error(void);

/* Opens the newest checkpoint of the run in a folder, with its best weights.
 * Nothing is written there; a run that is still being trained may be opened,
 * and stays as it was at that moment. `options` may be NULL. On failure *run is
 * NULL. */
PG_API pg_status pg_open(const char* folder, const pg_options* options,
                         pg_run** run);

/* NULL is allowed. Calls at work in other threads go on to their end. */
PG_API pg_status pg_close(pg_run* run);

/* What the model takes and gives: `count` ports, valid while the run is open.
 */
PG_API pg_status pg_inputs(const pg_run* run, const pg_port** ports,
                           size_t* count);
PG_API pg_status pg_outputs(const pg_run* run, const pg_port** ports,
                            size_t* count);

/* Computes the outputs that are named, all cases of the batch at once, into the
 * caller's arrays. After an error these hold nothing of use. Arrays on a GPU
 * are read and written in the default stream, and ready when the call returns.
 */
PG_API pg_status pg_apply(const pg_run* run, const pg_tensor* inputs,
                          size_t input_count, const pg_tensor* outputs,
                          size_t output_count);

/* The shape that an output has for these inputs, where its port leaves a length
 * open. `shape` has room for PG_MAX_RANK numbers. It asks the model, and so
 * takes as long as pg_apply. */
PG_API pg_status pg_output_shape(const pg_run* run, const pg_tensor* inputs,
                                 size_t input_count, const char* output,
                                 int64_t* shape, int32_t* rank);

#ifdef __cplusplus
}
#endif

#endif
