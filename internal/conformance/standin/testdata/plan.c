#include <string.h>

#include "standin.h"

enum release release;
enum ibv_wc_status send_status;
static struct ibv_wc kept[64];
static int keeps;

void release_kept(struct standin_cq *cq)
{
	int i;

	for (i = 0; i < keeps; i++)
		push(cq, &kept[i]);
	keeps = 0;
}

// step copies the next word of the plan. After the last word a round succeeds.
static void step(char *word, size_t size)
{
	const char *at = control->plan + control->cursor;
	size_t n = strcspn(at, " ");

	if (!*at) {
		strcpy(word, "ce");
		return;
	}
	n = n < size ? n : size - 1;
	memcpy(word, at, n);
	word[n] = 0;
	control->cursor += n + (at[n] == ' ');
}

// perform executes the letters of the step in their order:
//  c  the work request's completion is put into the queue
//  e  an event, if the queue is armed; then the queue is no longer armed
//  E  an event in any case; the queue stays as it is
//  l  an event that is lost: the queue is no longer armed
//  k  the completion is kept back
//  r  the completions that were kept back are put into the queue
//  p  the same with an event, after the queue was armed again and a poll found it empty
//  R  the device is removed
//  f  the send of a datagram completes with a bad status
//  x  the post verb returns post_err and nothing is posted
// Any other letter does nothing.
int perform(struct standin_cq *cq, const struct ibv_wc *own)
{
	struct ibv_wc wc = *own;
	char word[16], *c;

	if (control->wc_status)
		wc.status = control->wc_status < 0 ? IBV_WC_SUCCESS : control->wc_status;
	step(word, sizeof word);
	for (c = word; *c; c++) {
		switch (*c) {
		case 'c': push(cq, &wc); break;
		case 'e': event(cq, 0); break;
		case 'E': event(cq, 1); break;
		case 'l': cq->armed = 0; break;
		case 'k':
			if (keeps < 64)
				kept[keeps++] = wc;
			break;
		case 'r': release_kept(cq); break;
		case 'p': release = AFTER_ARM; break;
		case 'R': remove_device(); break;
		case 'f': send_status = IBV_WC_LOC_QP_OP_ERR; break;
		case 'x': return control->post_err;
		}
	}
	return 0;
}
