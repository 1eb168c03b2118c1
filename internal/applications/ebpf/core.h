// SPDX-License-Identifier: (GPL-2.0 OR MIT)
//
// Types of the kernel, with only the fields that trace.bpf.c uses. The offsets in this file do not matter, because the loader
// replaces them by the offsets of the running kernel (CO-RE). The names follow Linux 6.1. A name with ___ and a suffix is a
// variant of the type above it (a flavor in libbpf).
#pragma once

#define __VMLINUX_H__ // bpf_tracing.h then uses the kernel's names of registers

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};
enum { BPF_F_MMAPABLE = 1 << 10, BPF_RB_NO_WAKEUP = 1 << 0 };

#define CORE __attribute__((preserve_access_index))

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs,
		flags, sp, ss;
} CORE;
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
} CORE;
struct pt_regs {
	struct user_pt_regs user_regs;
	u64 orig_x0;
	__s32 syscallno;
} CORE;
#endif

struct list_head {
	struct list_head *next;
} CORE;

struct kernfs_node {
	const char *name;
	struct kernfs_node *parent;
} CORE;
// Since Linux 6.15.
struct kernfs_node___parent {
	struct kernfs_node *__parent;
} CORE;
struct cgroup {
	struct kernfs_node *kn;
} CORE;
struct css_set {
	struct cgroup *dfl_cgrp;
} CORE;

struct task_struct {
	unsigned int __state;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	u64 start_boottime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	char comm[16];
	struct css_set *cgroups;
} CORE;
struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

struct file {
	void *private_data;
} CORE;

struct rdma_restrack_entry {
	struct task_struct *task;
	u32 id;
} CORE;
struct ib_device {
	char name[64];
	u32 index;
} CORE;
struct ib_ucontext {
	struct ib_device *device;
	struct rdma_restrack_entry res;
} CORE;
struct uverbs_api_object {
	u32 id;
} CORE;
struct ib_uobject {
	u64 user_handle;
	struct ib_ucontext *context;
	void *object;
	const struct uverbs_api_object *uapi_object;
} CORE;
struct ib_uverbs_event_queue {
	int is_closed;
	struct list_head event_list;
} CORE;
struct ib_event_handler {
	struct ib_device *device;
} CORE;
struct ib_uverbs_async_event_file {
	struct ib_uobject uobj;
	struct ib_uverbs_event_queue ev_queue;
	struct ib_event_handler event_handler;
} CORE;
struct ib_uverbs_completion_event_file;

// From include/uapi/rdma/ib_user_verbs.h, and therefore the same on every kernel.
struct ib_uverbs_async_event_desc {
	u64 element;
	u32 event_type;
	u32 reserved;
};
struct ib_uverbs_event {
	union {
		struct ib_uverbs_async_event_desc async;
	} desc;
	struct list_head list;
	struct list_head obj_list;
} CORE;

struct ib_uevent_object {
	struct ib_uobject uobject;
	struct ib_uverbs_async_event_file *event_file;
	struct list_head event_list;
	u32 events_reported;
} CORE;
struct ib_ucq_object {
	struct ib_uevent_object uevent;
	u32 comp_events_reported;
} CORE;
struct ib_uqp_object {
	struct ib_uevent_object uevent;
} CORE;
struct ib_usrq_object {
	struct ib_uevent_object uevent;
} CORE;
struct ib_uwq_object {
	struct ib_uevent_object uevent;
} CORE;

struct ib_cq {
	struct ib_ucq_object *uobject;
	struct rdma_restrack_entry res;
} CORE;
struct ib_qp {
	struct ib_uqp_object *uobject;
	u32 qp_num;
} CORE;
struct ib_srq {
	struct ib_usrq_object *uobject;
	struct rdma_restrack_entry res;
} CORE;
struct ib_wq {
	struct ib_uwq_object *uobject;
	u32 wq_num;
} CORE;

enum ib_event_type { IB_EVENT_CQ_ERR };
struct ib_event {
	union {
		struct ib_cq *cq;
		struct ib_qp *qp;
		struct ib_srq *srq;
		struct ib_wq *wq;
	} element;
	enum ib_event_type event;
} CORE;
