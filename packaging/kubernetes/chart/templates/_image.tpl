{{/* Returns the reference of an image. Arguments: image, with repository and tag; tag, the default. A repository may have a digest instead of a
tag. */}}
{{- define "rdma-events.image" -}}
{{- if contains "@" (toString .image.repository) }}{{ .image.repository }}{{ else }}{{ printf "%s:%s" .image.repository (.image.tag | default .tag) }}{{ end }}
{{- end }}
