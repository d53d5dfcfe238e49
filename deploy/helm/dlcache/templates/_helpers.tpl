{{/* Labels of a part: (include "dlcache.labels" "node") */}}
{{- define "dlcache.labels" -}}
app.kubernetes.io/name: dlcache
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "dlcache.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Lines of a container that are the same everywhere. */}}
{{- define "dlcache.imageLines" -}}
image: {{ include "dlcache.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "dlcache.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "dlcache.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The name of the manager with this letter: dlcache-manager, dlcache-manager-b, ... */}}
{{- define "dlcache.manager" -}}
dlcache-manager{{ if ne . "a" }}-{{ . }}{{ end }}
{{- end }}

{{- define "dlcache.managers" -}}
{{- $urls := list }}
{{- range slice (list "a" "b" "c") 0 (int .Values.manager.replicas) }}
{{- $urls = append $urls (printf "https://%s:7070" (include "dlcache.manager" .)) }}
{{- end }}
{{- join "," $urls }}
{{- end }}

{{/* What pods of the parts get as their environment; pods have its hash, so that another setting replaces them. */}}
{{- define "dlcache.settings" -}}
DLCACHE_MANAGER: {{ include "dlcache.managers" . | quote }}
{{- with .Values.tenantNetworks }}
DLCACHE_TENANT_NETWORKS: {{ join "," . | quote }}
{{- end }}
{{- range $name, $value := .Values.config }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}
