{{/* Applies JSON patches (RFC 6902) to the objects that they are for. Arguments: objects, a list; patches, a list of dicts with target
and patch. A path may lead through lists, and its last part may be "-" for the end of a list. */}}
{{- define "rdma-events.patch" -}}
{{- range $p := .patches }}
{{- $found := false }}
{{- range $o := $.objects }}
{{- if and (eq $o.kind $p.target.kind) (eq $o.metadata.name $p.target.name) }}
{{- $found = true }}
{{- range $op := $p.patch }}
{{- $parts := splitList "/" (trimPrefix "/" $op.path) }}
{{- $last := last $parts | replace "~1" "/" | replace "~0" "~" }}
{{- $at := $o }}{{ $holder := $o }}{{ $key := "" }}
{{- range $part := initial $parts }}
{{- $holder = $at }}{{ $key = $part | replace "~1" "/" | replace "~0" "~" }}
{{- if kindIs "slice" $at }}{{ $at = index $at (int $part) }}{{ else }}{{ $at = index $at $key }}{{ end }}
{{- end }}
{{- if kindIs "invalid" $at }}{{ fail (printf "the patch of %s %s has a path that does not exist: %s" $o.kind $o.metadata.name $op.path) }}{{ end }}
{{- if eq $op.op "test" }}
{{- $now := "" }}
{{- if kindIs "slice" $at }}{{ $now = index $at (int $last) }}{{ else }}{{ $now = index $at $last }}{{ end }}
{{- if ne (toJson $now) (toJson $op.value) }}{{ fail (printf "%s of %s %s is not %s" $op.path $o.kind $o.metadata.name (toJson $op.value)) }}{{ end }}
{{- else if eq $last "-" }}{{ $_ := set $holder $key (append $at $op.value) }}
{{- else if kindIs "slice" $at }}{{ fail (printf "the path %s ends within a list: replace the list" $op.path) }}
{{- else }}{{ $_ := set $at $last $op.value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $found }}{{ fail (printf "there is no %s %s to patch" $p.target.kind $p.target.name) }}{{ end }}
{{- end }}
{{- end }}
